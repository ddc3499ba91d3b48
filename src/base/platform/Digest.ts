/** Digests that serve as short names. The same content always has the same digest. */
import { hash } from "node:crypto"

/** Returns the first `length` hexadecimal digits of the SHA-256 digest of text or bytes. */
export const toHex = (text: string | Uint8Array, length: number): string => hash("sha256", text, "hex").slice(0, length)

/**
 * Identifies a key without revealing it: returns the first 16 hexadecimal digits of its SHA-256. Keys must be long and
 * random.
 */
export const fingerprint = (key: string): string => toHex(key, 16)

/** Returns the hash of bytes in base64, as used in `integrity` values. */
export const toBase64 = (bytes: Uint8Array, algorithm: "sha256" | "sha384" | "sha512"): string =>
  hash(algorithm, bytes, "base64")
