"""The sink for MySQL and MariaDB."""
