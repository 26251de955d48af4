"""The rig is tested, too."""
