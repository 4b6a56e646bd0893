"""What the papers' experiments share: data, clocks, kept results, tables, plots and the report."""
