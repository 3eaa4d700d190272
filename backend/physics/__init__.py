"""Native staged execution, contact checks, predicates and verdicts."""
