/**
 * Memory that persists across sessions: entries of `MEMORY.md` (facts about machine and work) and `USER.md` (the user).
 *
 * **Details**
 *
 * Entries are separated by a line with `§`; duplicates count once. A change holds the lease of the file across all
 * processes and replaces the whole file. Several operations are one atomic change; the size limit applies to the
 * result. If a write would lose an edit made by hand, the old file is first preserved as a copy.
 *
 * Prompts show the blocks that {@link Service.blocks} reads when a session begins. Later writes change the file and the
 * tool's answers but not that prompt. An entry that looks like an injected instruction is not stored. If a person wrote
 * it into the file, it remains there, but the prompt shows a notice instead, and a warning is logged.
 *
 * **Example** (Storing a fact for later sessions)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import { mkdtempSync } from "node:fs"
 * import { tmpdir } from "node:os"
 * import { join } from "node:path"
 * import { MemoryStore } from "hermes-effect/prompt"
 *
 * const home = mkdtempSync(join(tmpdir(), "memory-"))
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   yield* store.change("user", [{ action: "add", content: "likes short answers" }])
 *   return yield* store.entries("user")
 * }).pipe(
 *   Effect.provide(MemoryStore.layer({ directory: home, database: join(home, "state.db"), limits: { user: 1_375 } })),
 *   Effect.provide(NodeServices.layer)
 * )
 *
 * console.log(await Effect.runPromise(program))
 * // => [ 'likes short answers' ]
 * ```
 *
 * Source: `hermes-llm.md` §6.2, §6.5 and §19.3, `hermes-product.md` §2.3 and §4.3.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { formatInteger } from "../../base/domain/TextCut.ts"
import * as Environment from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Injection from "../../base/domain/Injection.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as TextHygiene from "../../base/domain/TextHygiene.ts"
import { locateTenantFolder, removeTenantFolder } from "../../store/TenantFolder.ts"
import { CurrentTenant } from "../../store/TenantScope.ts"

/** File of an entry. */
export type Target = "memory" | "user"

/** One change of the entries. `old_text` must be part of exactly one entry. */
export const Operation = Schema.Struct({
  action: Schema.Literals(["add", "replace", "remove"]),
  content: Schema.optionalKey(Schema.String),
  old_text: Schema.optionalKey(Schema.String)
})
/** See {@link Operation}. */
export type Operation = typeof Operation.Type

/** Error raised when a change is refused; the entries are unchanged. */
export class MemoryRefused extends Schema.TaggedError<MemoryRefused>("hermes-effect/prompt/MemoryRefused")(
  "MemoryRefused",
  {
    message: Schema.String,
    /** The current entries, if the model has to select one of them. */
    entries: Schema.optionalKey(Schema.Array(Schema.String))
  }
) {}

const separator = "\n§\n"

/** Parses the entries of a file without duplicates. */
export const parse = (text: string): ReadonlyArray<string> =>
  Array.from(
    new Set(
      text
        .replace(/^\ufeff/, "")
        .replaceAll("\r\n", "\n")
        .split(/^[ \t]*§[ \t]*$/m)
        .map((entry) => entry.trim())
        .filter((entry) => entry !== "")
    )
  )

/** Renders the text of a file with these entries. */
export const render = (entries: ReadonlyArray<string>): string =>
  entries.length === 0 ? "" : `${entries.join(separator)}\n`

/** Counts the characters that entries use of their limit. */
export const countChars = (entries: ReadonlyArray<string>): number => entries.join(separator).length

/** Formats the used share of the limit: `45% — 990/2,200 chars`. */
export const formatUsage = (entries: ReadonlyArray<string>, limit: number): string =>
  `${Math.round((countChars(entries) / limit) * 100)}% — ` +
  `${formatInteger(countChars(entries))}/${formatInteger(limit)} chars`

const refuseChange = (message: string, entries?: ReadonlyArray<string>) =>
  Result.fail(new MemoryRefused({ message, ...(entries === undefined ? {} : { entries }) }))

/** Returns the text of an entry in the form to store, or the reason why it cannot be stored. */
const checkEntry = (content: string | undefined): Result.Result<string, MemoryRefused> => {
  const refusal = content === undefined ? undefined : Injection.findMemoryRefusal(content)
  if (refusal !== undefined) return refuseChange(refusal)
  const text = Redaction.redactText(TextHygiene.withoutControls(TextHygiene.toWellFormed(content ?? ""))).trim()
  if (text === "") return refuseChange("content is missing: give the text of the entry")
  return /^[ \t]*§[ \t]*$/m.test(text)
    ? refuseChange("content has a line with § alone, which separates entries: leave it out")
    : Result.succeed(text)
}

/** Returns the index of the only entry that contains a text. */
const findEntryIndex = (
  entries: ReadonlyArray<string>,
  oldText: string | undefined
): Result.Result<number, MemoryRefused> => {
  const part = oldText?.trim() ?? ""
  if (part === "") return refuseChange("old_text is missing: give a part of the entry")
  const matches = entries.filter((entry) => entry.includes(part))
  if (matches.length === 0) return refuseChange(`no entry contains "${part.slice(0, 80)}"`, entries)
  return matches.length === 1
    ? Result.succeed(entries.findIndex((entry) => entry.includes(part)))
    : refuseChange(
        `${matches.length} entries contain "${part.slice(0, 80)}": give more of the one that you mean`,
        matches
      )
}

const applyOperation = (
  entries: ReadonlyArray<string>,
  { action, content, old_text }: Operation
): Result.Result<ReadonlyArray<string>, MemoryRefused> => {
  switch (action) {
    case "add":
      return Result.map(checkEntry(content), (entry) => (entries.includes(entry) ? entries : [...entries, entry]))
    case "replace":
      return Result.flatMap(checkEntry(content), (entry) =>
        Result.map(findEntryIndex(entries, old_text), (place) => Array.from(new Set(entries.with(place, entry))))
      )
    case "remove":
      return Result.map(findEntryIndex(entries, old_text), (place) => entries.toSpliced(place, 1))
  }
}

/** Returns the entries after all operations, or the reason why no operation is applied. */
export const applyOperations = (
  entries: ReadonlyArray<string>,
  operations: ReadonlyArray<Operation>,
  limit: number
): Result.Result<ReadonlyArray<string>, MemoryRefused> => {
  let next = entries
  for (const operation of operations) {
    const result = applyOperation(next, operation)
    if (Result.isFailure(result)) return Result.fail(result.failure)
    next = result.success
  }
  return countChars(next) > limit && countChars(next) > countChars(entries)
    ? refuseChange(
        `the entries would have ${formatInteger(countChars(next))} of ${formatInteger(limit)} characters: shorten, ` +
          "merge or remove some in the same call",
        entries
      )
    : Result.succeed(next)
}

/** Returns the entries of a text written by a person, or the reason why they cannot be stored. */
const parseRewrittenEntries = (
  before: ReadonlyArray<string>,
  text: string,
  limit: number
): Result.Result<ReadonlyArray<string>, MemoryRefused> => {
  const known = new Set(before)
  const next: Array<string> = []
  for (const entry of parse(text)) {
    // An existing entry is preserved unchanged: if it must not be shown, prompts show a notice instead.
    const kept = known.has(entry) ? Result.succeed(entry) : checkEntry(entry)
    if (Result.isFailure(kept)) return refuseChange(`entry ${next.length + 1}: ${kept.failure.message}`)
    next.push(kept.success)
  }
  return countChars(next) > limit
    ? refuseChange(
        `the entries have ${formatInteger(countChars(next))} characters, ${formatInteger(limit)} fit: shorten or ` +
          "remove some"
      )
    : Result.succeed(Array.from(new Set(next)))
}

const titles: Readonly<Record<Target, string>> = {
  memory: "MEMORY (your own notes)",
  user: "USER PROFILE (who the user is)"
}

/** Renders these entries as a part of a system prompt; returns `undefined` without entries. */
export const renderBlock = (target: Target, entries: ReadonlyArray<string>, limit: number): string | undefined =>
  entries.length === 0
    ? undefined
    : [`# ${titles[target]} [${formatUsage(entries, limit)}]`, entries.map(renderEntry).join(separator)].join("\n\n")

const scanEntry = (entry: string): ReadonlyArray<string> => Injection.scan(entry, "memory").map(({ id }) => id)

const renderEntry = (entry: string): string => {
  const findings = scanEntry(entry)
  return findings.length === 0
    ? TextHygiene.stripFences(entry)
    : `[BLOCKED: this entry may contain a prompt injection (${findings.join(", ")}). It was not loaded.]`
}

/** State of one file after a change. */
export interface Saved {
  readonly entries: ReadonlyArray<string>
  readonly limit: number
}

/** The memory of a user. */
export interface Service {
  /** Files in use. */
  readonly targets: ReadonlyArray<Target>
  /** Returns the maximum number of characters of a file. */
  readonly getFileLimit: (target: Target) => number
  readonly entries: (target: Target) => Effect.Effect<ReadonlyArray<string>, ConfigError>
  /** Applies all operations or none. */
  readonly change: (
    target: Target,
    operations: ReadonlyArray<Operation>
  ) => Effect.Effect<Saved, ConfigError | MemoryRefused>
  /**
   * Replaces `before` with the entries of a text, all or none. Fails if the entries of the file have changed since, or
   * if an entry cannot be stored.
   */
  readonly rewrite: (
    target: Target,
    before: ReadonlyArray<string>,
    text: string
  ) => Effect.Effect<Saved, ConfigError | MemoryRefused>
  /**
   * Parts of a system prompt: memory, then the user's profile. A file that cannot be read is logged and omitted. A file
   * that cannot be read is reported in the log and left out.
   */
  readonly blocks: Effect.Effect<ReadonlyArray<string>>
}

/** See {@link Service}. */
export class MemoryStore extends Context.Service<MemoryStore, Service>()("hermes-effect/prompt/MemoryStore") {}

/** Location and limits of a memory. */
export interface Options {
  /** Directory of `MEMORY.md` and `USER.md`. */
  readonly directory: string
  /** Database that holds the leases of its writers. */
  readonly database: string
  /** Maximum number of characters of each file; a file without a limit is not in use. */
  readonly limits: { readonly [target in Target]?: number | undefined }
}

const fileNames: Readonly<Record<Target, string>> = { memory: "MEMORY.md", user: "USER.md" }

/** Creates the memory in one directory. */
const makeAt = (options: Options): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
    const targets = (["memory", "user"] as const).filter((target) => options.limits[target] !== undefined)
    const resolvePath = (target: Target): string => paths.join(options.directory, fileNames[target])
    const getLimit = (target: Target): number => options.limits[target] ?? 0

    const entries: Service["entries"] = (target) =>
      Environment.readText(resolvePath(target)).pipe(
        Effect.map((text) => parse(Option.getOrElse(text, () => ""))),
        Effect.provideContext(context)
      )

    /** Preserves text of a manually edited file that a write would lose. */
    const keepForeign = Effect.fnUntraced(function* (target: Target, text: string) {
      if (text.trim() === "" || render(parse(text)) === `${text.trim()}\n`) return
      const millis = yield* Clock.currentTimeMillis
      const path = `${resolvePath(target)}.${millis}.bak`
      yield* Effect.mapError(
        fs.writeFileString(path, text, { flag: "wx", mode: 0o600 }),
        (error) =>
          new ConfigError({
            path,
            message: `${path}: cannot be written, so nothing was changed: ${describeReason(error)}`
          })
      )
    })

    /** Replaces the entries of a file with new entries computed from them. */
    const updateEntries = (
      target: Target,
      make: (before: ReadonlyArray<string>, limit: number) => Result.Result<ReadonlyArray<string>, MemoryRefused>
    ): Effect.Effect<Saved, ConfigError | MemoryRefused> =>
      Effect.gen(function* () {
        if (!targets.includes(target))
          return yield* new MemoryRefused({ message: `${target} is turned off in the settings` })
        yield* Effect.ignore(fs.makeDirectory(options.directory, { recursive: true, mode: 0o700 }))
        const limit = getLimit(target)
        const result = yield* Environment.updateText(options.database, resolvePath(target), (text) =>
          Effect.gen(function* () {
            const before = parse(text)
            const result = make(before, limit)
            const isSame =
              Result.isFailure(result) ||
              (result.success.length === before.length && result.success.every((entry, at) => entry === before[at]))
            if (isSame) return { text, result }
            yield* keepForeign(target, text)
            return { text: render(result.success), result }
          })
        )
        return { entries: yield* Effect.fromResult(result), limit }
      }).pipe(Effect.provideContext(context))

    const change: Service["change"] = (target, operations) =>
      updateEntries(target, (before, limit) => applyOperations(before, operations, limit))

    const rewrite: Service["rewrite"] = (target, expected, text) =>
      updateEntries(target, (before, limit) =>
        before.length === expected.length && before.every((entry, at) => entry === expected[at])
          ? parseRewrittenEntries(before, text, limit)
          : refuseChange("the entries were changed meanwhile: edit them again")
      )

    const blocks = Effect.map(
      Effect.forEach(targets, (target) =>
        Effect.tap(entries(target), (found) => {
          const { length: blocked } = found.filter((entry) => scanEntry(entry).length > 0)
          return blocked === 0
            ? Effect.void
            : Effect.logWarning(
                `${resolvePath(target)}: ${blocked === 1 ? "an entry" : `${blocked} entries`} may contain a ` +
                  `prompt injection: sessions begin without ${blocked === 1 ? "it" : "them"}`
              )
        }).pipe(
          Effect.map((found) => renderBlock(target, found, getLimit(target))),
          Effect.catch((error) =>
            Effect.as(Effect.logWarning(`${error.message}: sessions begin without it`), undefined)
          )
        )
      ),
      (found) => found.flatMap((text) => text ?? [])
    )

    return { targets, getFileLimit: getLimit, entries, change, rewrite, blocks }
  })

/** Removes the memory files of a tenant. Returns their number. */
export const removeTenant = Effect.fnUntraced(function* (
  directory: string,
  tenant: string
): Effect.fn.Return<number, ConfigError, FileSystem.FileSystem | Path.Path> {
  const place = locateTenantFolder(yield* Path.Path, directory, tenant)
  return yield* Effect.mapError(
    removeTenantFolder(directory, tenant),
    (error) => new ConfigError({ path: place, message: `${place}: cannot be removed: ${describeReason(error)}` })
  )
})

/** Creates the memory of a directory. Work for a tenant uses the memory of that tenant. */
export const make = (options: Options): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
    const paths = Context.get(context, Path.Path)
    const shared = yield* makeAt(options)
    const useMemory = <A, E>(body: (memory: Service) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.flatMap(CurrentTenant, (tenant) => {
        if (tenant === undefined) return body(shared)
        const directory = locateTenantFolder(paths, options.directory, tenant)
        return Effect.flatMap(Effect.provideContext(makeAt({ ...options, directory }), context), body)
      })
    return {
      targets: shared.targets,
      getFileLimit: shared.getFileLimit,
      entries: (target) => useMemory((memory) => memory.entries(target)),
      change: (target, operations) => useMemory((memory) => memory.change(target, operations)),
      rewrite: (target, before, text) => useMemory((memory) => memory.rewrite(target, before, text)),
      blocks: useMemory((memory) => memory.blocks)
    }
  })

/** Creates the memory configured in a user's settings, in the home directory. */
export const makeFromSettings = (
  { memory: { memoryCharLimit, memoryEnabled, userCharLimit, userProfileEnabled } }: Pick<Values, "memory">,
  home: Environment.Home["Service"]
) =>
  make({
    directory: home.memories,
    database: home.database,
    limits: {
      memory: memoryEnabled ? memoryCharLimit : undefined,
      user: userProfileEnabled ? userCharLimit : undefined
    }
  })

/** Provides {@link make} as a Layer. */
export const layer = (options: Options): Layer.Layer<MemoryStore, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(MemoryStore, make(options))
