"""Other memory libraries beside ours, on the same conversations: `make bench-peers`.

Each library, ours included, is driven through its own interface by an adapter in a process and an
environment of its own; the driver speaks JSON lines with it. No model is called: all of them are given the
same words as a summary.
"""
