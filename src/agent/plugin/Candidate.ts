/** A discovered plugin, with the data that is available without running its code. */
import type * as Effect from "effect/Effect"
import type * as Manifest from "./Manifest.ts"
import type { Plugin } from "./Plugin.ts"

/** Source of a plugin. `git` is a user's plugin that is a git checkout. */
export type Source = "bundled" | "user" | "git" | "project" | "package" | "application"

/** Origin of the plugin's code. */
export type Origin =
  /** A directory and its module, which is `undefined` if the directory contains no module. */
  | { readonly _tag: "Directory"; readonly directory: string; readonly module: string | undefined }
  /** Value in the code of this program or of an application. */
  | { readonly _tag: "Value"; readonly load: Effect.Effect<Plugin<unknown>, unknown> }

/** A plugin that was found and not loaded yet. */
export interface Candidate {
  /** `category/directory`, or the plugin's name. Unique among the discovered plugins. */
  readonly key: string
  readonly name: string
  /** Names that identify the plugin in the configuration lists: its key, its name and its directory. */
  readonly names: ReadonlyArray<string>
  readonly source: Source
  readonly kind: Manifest.Kind
  readonly manifest: Manifest.Manifest
  readonly origin: Origin
}

/** Returns the path on disk, or `undefined` for a plugin that is a value. */
export const findDirectory = ({ origin }: Candidate): string | undefined =>
  origin._tag === "Value" ? undefined : origin.directory
