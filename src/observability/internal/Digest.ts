/** Ids that follow from what they are of. */
import { createHash } from "node:crypto"

/** The first 128 bits of the SHA-256 of a text, in hexadecimal: how Langfuse's own clients make a trace id of a seed. */
export const traceId = (seed: string): string => createHash("sha256").update(seed).digest("hex").slice(0, 32)
