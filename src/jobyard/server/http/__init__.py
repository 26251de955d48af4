"""The HTTPS endpoint: who may connect, certificates and tokens, watches over WebSocket."""
