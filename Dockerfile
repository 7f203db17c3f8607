# gdngen with its plugins, which are fetched as the image is built: docker build -t gdngen . && docker run gdngen explain --spec bench --target v6e
FROM golang:1.26-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev python3 python3-pip python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /gdngen
COPY . .
RUN go build -o /usr/local/bin/gdngen ./cmd/gdngen && gdngen setup
ENTRYPOINT ["gdngen"]
