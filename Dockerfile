# The controller's image, for a cluster:
#   docker build --tag jobyard:VERSION .
# The package is built and installed in a first stage; only the result is in the image. Everything
# that goes in is locked by its hash: the base here, the rest in tools/locks/. To bring the base up
# to date, take the digest that `docker buildx imagetools inspect python:3.13-slim` shows, put it
# here, and run `make sbom`.
ARG PYTHON_IMAGE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
COPY tools/locks/build.txt tools/locks/package.txt locks/
# What builds the package stays in this stage.
RUN pip install --no-cache-dir --only-binary=:all: --require-hashes --requirement locks/build.txt
# The virtualenv has no pip of its own: nothing is installed in it later.
RUN python -m venv --without-pip /opt/jobyard
RUN pip --python /opt/jobyard install --no-cache-dir --only-binary=:all: \
        --require-hashes --requirement locks/package.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .
RUN pip --python /opt/jobyard install --no-cache-dir --no-deps --no-index /wheels/jobyard-*.whl
RUN pip --python /opt/jobyard check

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="jobyard" \
      org.opencontainers.image.description="Distributed training and batch jobs from one YAML file, on one machine or on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/jobyard /opt/jobyard
# What the image is made of, as CycloneDX has it.
COPY tools/images/jobyard.cdx.json /opt/jobyard/sbom.cdx.json
# The root file system is read-only on a cluster; everything was compiled at installation.
ENV PATH=/opt/jobyard/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Numeric, since Kubernetes can't tell of a name that it isn't root.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["jobyard"]
CMD ["--help"]
