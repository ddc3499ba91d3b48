/**
 * Digests that name things: the same text always gets the same short name.
 */
import { hash } from "node:crypto"

/** The first `length` hexadecimal digits of the SHA-256 of a text or of bytes. */
export const toHex = (text: string | Uint8Array, length: number): string => hash("sha256", text, "hex").slice(0, length)

/** Names a key without telling it: the first 16 hexadecimal digits of its SHA-256. Keys are long and random. */
export const fingerprint = (key: string): string => toHex(key, 16)

/** Hash of bytes in base64, as integrity texts have it. */
export const toBase64 = (bytes: Uint8Array, algorithm: "sha256" | "sha384" | "sha512"): string =>
  hash(algorithm, bytes, "base64")
