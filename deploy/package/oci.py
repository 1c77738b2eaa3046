"""Makes an OCI image of one layer out of a directory, without a registry or a container engine.

    oci.py DIRECTORY ARCHITECTURE VERSION OUT

OUT is a tar file that is an OCI image layout, and has what `docker load` of older engines reads as well. Its bytes
depend on the directory, on the other arguments and on SOURCE_DATE_EPOCH alone.
"""

import datetime
import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

WHEN = int(os.environ["SOURCE_DATE_EPOCH"])


def entry(name: str, size: int = 0) -> tarfile.TarInfo:
    """Return the head of a file of root's."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, WHEN, 0o644
    return info


def layer(root: Path) -> bytes:
    """Return the files below a directory as a tar file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            info = entry(str(path.relative_to(root)))
            info.mode = path.stat().st_mode & 0o7777
            if path.is_dir():
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(info, file)
    return out.getvalue()


def document(value: object) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def described(kind: str, data: bytes) -> dict[str, Any]:
    """Return what names a blob."""
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest(data), "size": len(data)}


def image(root: Path, architecture: str, version: str) -> dict[str, bytes]:
    """Return the files of the image by their names."""
    files = layer(root)
    created = datetime.datetime.fromtimestamp(WHEN, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {"org.opencontainers.image.title": "slipway", "org.opencontainers.image.version": version}
    config = document(
        {
            "created": created,
            "architecture": architecture,
            "os": "linux",
            "config": {
                "Entrypoint": ["/usr/bin/slipway"],
                "Cmd": ["serve"],
                "Env": ["PATH=/usr/bin:/usr/local/bin"],
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest(files)]},
            "history": [{"created": created, "created_by": "deploy/release"}],
        }
    )
    manifest = document(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described("config.v1+json", config),
            "layers": [described("layer.v1.tar", files)],
        }
    )
    tag = f"slipway/service:{version}"
    named = described("manifest.v1+json", manifest) | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": version},
    }
    blobs = {"blobs/sha256/" + digest(data): data for data in (files, config, manifest)}
    of_docker = [
        {
            "Config": "blobs/sha256/" + digest(config),
            "RepoTags": [tag],
            "Layers": ["blobs/sha256/" + digest(files)],
        }
    ]
    return blobs | {
        "oci-layout": document({"imageLayoutVersion": "1.0.0"}),
        "index.json": document({"schemaVersion": 2, "manifests": [named]}),
        "manifest.json": document(of_docker),
    }


def main() -> None:
    """Write the image."""
    root, architecture, version, out = sys.argv[1:]
    with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in sorted(image(Path(root), architecture, version).items()):
            tar.addfile(entry(name, len(data)), io.BytesIO(data))


if __name__ == "__main__":
    main()
