# syntax=docker/dockerfile:1
# Builds Parley into an image that has nothing else: docker build -t parley .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /parley ./cmd/parley && mkdir /data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /parley /parley
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
VOLUME /data
EXPOSE 8000
# Beyond loopback the server needs a token and TLS, or a proxy that ends TLS: docs/access.md.
ENTRYPOINT ["/parley"]
CMD ["serve", "--addr", "0.0.0.0:8000", "--data", "/data"]
