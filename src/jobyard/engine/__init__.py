"""The embedded engine put together: API server, scheduler, node agent and the controller.

The only place that knows them all. The controller and the node agent see the API server
through the same client as a cluster's; here it calls straight into the server.
"""
