"""World maker, metrics, reports and benches."""
