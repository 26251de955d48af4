"""Why a job isn't running or done, and how queues stand: from observed objects to an answer."""
