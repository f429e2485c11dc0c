"""The dashboards as code; `build.py` renders them."""
