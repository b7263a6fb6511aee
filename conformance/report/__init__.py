"""From a log to what people and tools read: terminal, JUnit, HTML, matrix, badge. All are made from one `Report`."""
