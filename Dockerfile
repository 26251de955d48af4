# The controller's image, for a cluster:
#   docker build --tag jobyard:VERSION .
# The package is built and installed in a first stage; only the result is in the image.
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# The virtualenv has no pip of its own: nothing is installed in it later.
RUN python -m venv --without-pip /opt/jobyard
RUN pip --python /opt/jobyard install --no-cache-dir /wheels/jobyard-*.whl

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="jobyard" \
      org.opencontainers.image.description="Distributed training and batch jobs from one YAML file, on one machine or on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/jobyard /opt/jobyard
# The root file system is read-only on a cluster; everything was compiled at installation.
ENV PATH=/opt/jobyard/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Numeric, since Kubernetes can't tell of a name that it isn't root.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["jobyard"]
CMD ["--help"]
