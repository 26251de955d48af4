"""Random stories: steps of users and programs, a decision after each, and the rules after that."""

from __future__ import annotations

from schedule.stories.rules import BrokenRuleError, check
from schedule.stories.world import World

GANGS_MAX = 14
# How often the engine is killed between any two calls.
KILLED = 0.15


class Story:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.steps = 0

    def step(self) -> None:
        world, dice = self.world, self.world.dice
        draw = dice.random()
        if draw < 0.35 and len(world.groups) < GANGS_MAX:
            world.submit()
        elif draw < 0.40:
            world.delete_gang()
        elif draw < 0.43:
            world.make_job_again()
        elif draw < 0.48:
            world.change_queue()
        elif draw < 0.75:
            world.end_one()
        elif draw < 0.88:
            world.stop_some()
            world.collect()
        elif draw < 0.93:
            world.make_some()
        else:
            world.pass_time()
        self._look()

    def _look(self) -> None:
        world = self.world
        world.begin_all()
        world.clean_up()
        before, after = world.copied(), world.copied()
        decided = world.decide()
        after.cycle = world.cycle
        after.apply(decided)
        self.steps += 1
        try:
            check(before, decided, after)
        except BrokenRuleError as broken:
            raise BrokenRuleError(f"seed {self.seed}, step {self.steps}: {broken}") from None
        calls = sum(1 for _ in world.calls(decided))
        is_killed = world.dice.random() < KILLED
        world.apply(decided, world.dice.randint(0, calls) if is_killed else None)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def settle(self) -> None:
        """Nothing new comes, queues are open, and what runs ends: all that can run has its turn.

        Each round ends all that runs, so each round some gang that can run starts, and none comes
        back: there are never more rounds than gangs and members.
        """
        world = self.world
        for name, queue in world.queues.items():
            world.queues[name] = type(queue)(name=name, priority=queue.priority)
        bound = 3 * (len(world.pods) + len(world.groups)) + 10
        for _ in range(bound):
            world.now += 11.0
            world.collect(share=1.0)
            for _ in range(2):
                world.stop_some(share=1.0)
            world.make_some(share=1.0)
            self._look()
            running = [pod for pod in world.running if not pod.is_terminating]
            for pod in running:
                if pod.group is None:
                    del world.pods[pod.uid]
                else:
                    world.pods[pod.uid] = type(pod)(
                        **{f: getattr(pod, f) for f in pod.__struct_fields__}
                        | {"phase": "Succeeded"}
                    )
        decided = world.decide()
        stuck = [
            each
            for each in decided.refused
            if each.why.reason.value
            not in ("NeverFits", "NoSuchQueue", "NoSuchGroup", "NotEnoughMembers")
        ]
        if stuck or world.running:
            first = f"{stuck[0].pod}: {stuck[0].why}" if stuck else "something runs for ever"
            raise BrokenRuleError(f"seed {self.seed}: none starves within {bound} rounds: {first}")


def tell(seed: int, steps: int) -> int:
    """One whole story; how many decisions it took."""
    story = Story(seed)
    story.run(steps)
    story.settle()
    return story.steps
