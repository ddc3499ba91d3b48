/**
 * Describes to a user why the system refused a path.
 */
import type { PlatformError } from "effect/PlatformError"

const reasons: Readonly<Record<string, string>> = {
  PermissionDenied: "permission denied",
  BadResource: "it is not a file",
  NotFound: "no such file or directory"
}

/** The reason of an error about a path, without the path. */
export const reasonOf = ({ message, reason }: PlatformError): string => reasons[reason._tag] ?? message
