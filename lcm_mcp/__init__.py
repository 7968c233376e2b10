"""A memory server for agents: durable transcripts and a summary DAG over them, in one SQLite file."""

__version__ = "0.1.0"
