/**
 * Reads the branch that a folder is on, for the sessions that begin there.
 *
 * An application's agent reads no branch. The program provides `platform/GitBranch`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** Returns the branch of a folder; `undefined` outside a repository. The default reads nothing. */
export class FolderBranch extends Context.Reference<(folder: string) => Effect.Effect<string | undefined>>(
  "hermes-effect/FolderBranch",
  { defaultValue: () => () => Effect.undefined }
) {}
