"""An object that an earlier task cannot overwrite: its metadata hold the token, and `If-Match` guards the write."""

from typing import Any

from botocore.exceptions import ClientError

TOKEN = "fencing-token"


def put_object(s3: Any, token: int, bucket: str, key: str, body: bytes) -> bool:
    """Write an object under a fencing token. False if a later task has written it."""
    while True:
        condition = {"IfNoneMatch": "*"}
        try:
            head = s3.head_object(Bucket=bucket, Key=key)
            if int(head["Metadata"].get(TOKEN, 0)) > token:
                return False
            condition = {"IfMatch": head["ETag"]}
        except ClientError as error:
            if error.response["Error"]["Code"] != "404":
                raise
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=body, Metadata={TOKEN: str(token)}, **condition)
        except ClientError as error:
            # Somebody wrote it meanwhile: look again whose token is higher.
            if error.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict", "404"):
                raise
        else:
            return True
