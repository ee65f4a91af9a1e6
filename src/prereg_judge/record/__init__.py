"""Run records: line schema, writer, reader and resume."""
