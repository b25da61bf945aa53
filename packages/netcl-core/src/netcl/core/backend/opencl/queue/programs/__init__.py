"""Programs: their texts declared, built, and kept in memory and on disk; progress of slow builds."""
