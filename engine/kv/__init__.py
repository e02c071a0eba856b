"""What can be made of kept keys and values beyond the prefix that they were computed behind."""
