"""Who may do what: principals by their credentials, their grants, and what each RPC requires.

See docs/operate/security.md.

Nothing here knows a task. A call is judged once, and what it may touch is its `Access`.
"""
