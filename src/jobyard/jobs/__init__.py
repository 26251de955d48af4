"""What can be done with jobs that are there, and said about them: without click and printing.

Commands are faces of it. What decides is pure: observed objects in, a value out.
"""
