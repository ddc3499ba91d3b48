/** Resolves the paths that the words of a command name, following links on the way, as the system does. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import * as Glob from "../base/domain/Glob.ts"
import type { NamedPlace, Reading } from "./NamedFiles.ts"

/** Returns true if a path is a directory or lies below it. */
export const isWithin = (path: string, root: string): boolean =>
  path === root || path.startsWith(root === "/" ? root : `${root}/`)

/**
 * Returns true if a name matches a pattern whose character classes are replaced by wildcards, which match more names.
 */
export const isMatching = (pattern: string, name: string): boolean =>
  Glob.isMatch(pattern.replace(/\[[^\]]*\]?/g, "*"), name)

/** The places from which paths are resolved. */
type PathContext = Pick<Reading, "cwd" | "fs" | "home" | "path" | "tree">

/** Replaces `~` by the home directory, if it is known. */
export const withHome = ({ home }: Pick<PathContext, "home">, text: string): string =>
  home === undefined ? text : text.replace(/^~(?=\/|$)/, home)

/** Resolves a path from a directory to directories and files, following links on the way. */
const resolvePaths = Effect.fnUntraced(function* (
  context: PathContext,
  start: string,
  text: string,
  isPattern: boolean
): Effect.fn.Return<ReadonlyArray<string>, PlatformError> {
  let found: ReadonlyArray<string> = [yield* context.fs.realPath(start)]
  const parts = text.split("/").filter((part) => part !== "" && part !== ".")
  for (const [index, part] of parts.entries()) {
    const next: Array<string> = []
    for (const at of found) {
      const names =
        isPattern && /[*?[]/.test(part)
          ? (yield* Effect.orElseSucceed(context.fs.readDirectory(at), () => [])).filter(
              (name) => (!name.startsWith(".") || part.startsWith(".")) && isMatching(part, name)
            )
          : []
      for (const name of new Set([...names, part])) {
        const child = context.path.join(at, name)
        // A link that is named itself is the entry that the command removes.
        const real =
          index === parts.length - 1 && part !== ".."
            ? Effect.as(context.fs.lstat(child), child)
            : context.fs.realPath(child)
        const there = yield* Effect.option(real)
        if (Option.isSome(there)) next.push(there.value)
      }
    }
    found = next
  }
  return found
})

/**
 * Resolves the files of a place. If the command line changes the directory, the path is also resolved without the
 * change, because `cd` may fail.
 */
export const resolvePlace = Effect.fnUntraced(function* (
  context: PathContext,
  { directory, isPattern = false, path: given }: NamedPlace
): Effect.fn.Return<ReadonlyArray<string>, PlatformError> {
  const text = withHome(context, given)
  if (text.startsWith("/")) return yield* resolvePaths(context, "/", text, isPattern)
  if (directory === undefined) return yield* resolvePaths(context, context.cwd, text, isPattern)
  const found = yield* resolvePaths(
    context,
    context.path.resolve(context.cwd, withHome(context, directory)),
    text,
    isPattern
  )
  return [
    ...new Set([
      ...found,
      ...(yield* resolvePaths(context, context.cwd, text, isPattern)).filter(
        (file) => isWithin(file, context.tree) && file !== context.tree
      )
    ])
  ]
})
