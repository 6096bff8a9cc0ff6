"""What one boot of any machine is asked to do, and what it says."""
