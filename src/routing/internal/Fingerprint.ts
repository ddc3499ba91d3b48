import { createHash } from "node:crypto"

/** Names a key without telling it: the first 16 hexadecimal digits of its SHA-256. Keys are long and random. */
export const of = (key: string): string => createHash("sha256").update(key).digest("hex").slice(0, 16)
