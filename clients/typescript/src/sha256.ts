/** SHA-256 of bytes that come in parts. Browsers have it for whole values alone, and over https only; Node has its own. */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

/** Hashes bytes, as `createHash` of Node does. */
export interface Hash {
  update(data: Uint8Array): unknown;
  digest(encoding: "hex"): string;
}

/** A hash that needs nothing of where it runs. */
export function portableHash(): Hash {
  const hash = sha256.create();
  return { update: (data) => hash.update(data), digest: () => bytesToHex(hash.digest()) };
}
