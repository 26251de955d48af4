"""How the agent gets pods run: the hub, a link to each supervisor, and what a server asks."""
