/** Describes for a user the reason why the operating system refused access to a path or a write. */
import type { PlatformError } from "effect/PlatformError"

const reasons: Readonly<Record<string, string>> = {
  PermissionDenied: "permission denied",
  BadResource: "it is not a file",
  NotFound: "no such file or directory"
}

const codes: Readonly<Record<string, string>> = {
  ENOSPC: "no space left on the device",
  EDQUOT: "the disk quota is used up",
  EFBIG: "the file is too large",
  EROFS: "the file system is read-only",
  EISDIR: "it is a directory",
  ENOTDIR: "a part of the path is a file",
  ENAMETOOLONG: "the name is too long"
}

/** Describes a system error by its code; `undefined` for codes without a description. */
export const describeCode = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error ? codes[String(error.code)] : undefined

/** Returns the reason for an error about a path, without the path. */
export const describeReason = ({ message, reason }: PlatformError): string =>
  reasons[reason._tag] ?? ("cause" in reason ? describeCode(reason.cause) : undefined) ?? message
