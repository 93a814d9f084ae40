"""How much data, and from where: one model trained on several sets, and judged on several others."""
