# The programs on a CPU:
#   docker build --tag=bert .
#   docker run --rm --volume=/data:/data bert run_classifier.py --help
FROM python:3.12-slim-trixie

RUN useradd --create-home --uid=1000 bert
WORKDIR /opt/bert

# A layer of its own: it changes only when the versions do.
COPY requirements.txt requirements-litert.txt ./
RUN pip install --no-cache-dir --disable-pip-version-check \
    --requirement=requirements.txt --requirement=requirements-litert.txt

COPY *.py LICENSE ./
COPY configs configs
COPY data data
COPY demo demo
COPY modeling modeling
COPY studies studies
COPY training training

ENV PYTHONUNBUFFERED=1
USER 1000
# SIGTERM reaches Python: a run that is stopped saves its step.
ENTRYPOINT ["python"]
CMD ["run_classifier.py", "--help"]
