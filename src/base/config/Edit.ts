/**
 * Reads and changes single settings for `hermes config get | set | unset` and for the commands that store lists in the
 * file.
 *
 * **Details**
 *
 * A change rewrites only the lines of its key; comments and all other bytes remain unchanged. The change is refused if
 * the value is invalid, if the key is ambiguous, or if the file cannot be changed in place. The file is replaced as a
 * whole, with mode 0600, while a lease is held. A simultaneous change by another process is therefore preserved.
 *
 * A key that names a secret (`_API_KEY`, `_TOKEN`, `_SECRET`) is stored in `.env`; if it is nested below another key,
 * the file refers to it as `${NAME}`.
 *
 * In a key as users type it (`agent.max_turns`) a dot separates levels, and `\.` is a dot in a name. If keys of the
 * file contain dots (as model ids do), the longest existing key applies: with a model `qwen3.6:35b`,
 * `providers.x.models.qwen3.6:35b.timeout_seconds` belongs to that model. A new mapping `qwen3` next to it would make
 * such keys ambiguous, and is refused.
 *
 * Source: `hermes-product.md` §1.6.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigError } from "../domain/AgentError.ts"
import { mask, redactValue } from "../domain/Redaction.ts"
import * as Config from "./Config.ts"
import * as DotEnv from "./DotEnv.ts"
import { Environment, Home, updateText } from "./Environment.ts"
import { providerKeysKey } from "./internal/FileKeys.ts"
import * as SettingsShape from "./internal/SettingsShape.ts"
import * as Tree from "./internal/Tree.ts"
import * as YamlEdit from "./internal/YamlEdit.ts"
import * as RouteStatement from "./RouteStatement.ts"
import type { Values } from "./Settings.ts"
import { SettingsSchema } from "./SettingsSchema.ts"
import * as Yaml from "./Yaml.ts"

const makeKeyError = (key: string, reason: string): ConfigError =>
  new ConfigError({ path: key, message: `${key}: ${reason}` })

/** Splits a key into its names and resolves escapes. */
export const splitKey = (key: string): Effect.Effect<ReadonlyArray<string>, ConfigError> => {
  const parts = Array.from(key.matchAll(/((?:[^\\.]|\\[^]|\\$)*)(?:\.|$)/g), ([, part = ""]) => part)
  // Drops the last match, which is the empty rest after the last name.
  const found = parts.slice(0, -1).map((part) => part.replaceAll(/\\([.\\])/g, "$1"))
  return found.length === 0 || found.includes("") || key.endsWith(".")
    ? Effect.fail(makeKeyError(key, "a key is names with dots between them, such as agent.max_turns"))
    : Effect.succeed(found)
}

/** Splits a key for a change. Fails if one of its names is reserved, such as `__proto__`. */
const splitChangedKey = (key: string): Effect.Effect<ReadonlyArray<string>, ConfigError> =>
  Effect.flatMap(splitKey(key), (names) => {
    const reserved = Tree.findReservedName(names)
    return reserved === undefined
      ? Effect.succeed(names)
      : Effect.fail(makeKeyError(key, `${reserved} cannot be the name of a setting: use another name`))
  })

/** Returns the number of leading names that form the longest key of a mapping; 0 if no key matches. */
const countLongestKey = (tree: Tree.Mapping, names: ReadonlyArray<string>): number => {
  for (let count = names.length; count > 0; count--) {
    if (Object.hasOwn(tree, names.slice(0, count).join("."))) return count
  }
  return 0
}

/** Returns the place of a key in a file, existing or new. Fails if the key is ambiguous. */
export const locate = (tree: unknown, key: string): Effect.Effect<ReadonlyArray<string>, ConfigError> =>
  Effect.flatMap(splitKey(key), (all) => {
    const path: Array<string> = []
    let at: unknown = tree
    let rest = all
    while (rest.length > 0) {
      const mapping = Tree.isMapping(at) ? at : {}
      if (at !== undefined && at !== null && !Tree.isMapping(at)) {
        return Effect.fail(
          makeKeyError(
            key,
            `${Tree.formatPath(path)} holds ${Array.isArray(at) ? "a list" : "a value"}: it cannot have keys below it`
          )
        )
      }
      const count = Math.max(1, countLongestKey(mapping, rest))
      const name = rest.slice(0, count).join(".")
      rest = rest.slice(count)
      const shadowed = Object.keys(mapping).find((other) => other.startsWith(`${name}.`))
      if (rest.length > 0 && shadowed !== undefined && !Object.hasOwn(mapping, name)) {
        return Effect.fail(
          makeKeyError(
            key,
            `${JSON.stringify(name)} beside ${JSON.stringify(shadowed)} would be ambiguous: write a dot in a ` +
              `name as \\.`
          )
        )
      }
      path.push(name)
      at = Tree.get(mapping, [name])
    }
    return Effect.succeed(path)
  })

/** Returns the value at a key in a tree. A position in a list counts as a name. */
const lookUp = (tree: unknown, names: ReadonlyArray<string>): unknown => {
  if (names.length === 0 || tree === undefined) return tree
  const count = Tree.isMapping(tree) ? Math.max(1, countLongestKey(tree, names)) : 1
  return lookUp(Tree.get(tree, [names.slice(0, count).join(".")]), names.slice(count))
}

/**
 * Returns the name of the variable in `.env` that stores the value of a secret key (ending in `_API_KEY`, `_TOKEN` or
 * `_SECRET`); `undefined` for any other key.
 */
export const findSecretVariable = (names: ReadonlyArray<string>): string | undefined =>
  /_(?:api_key|token|secret)$/i.test(names.at(-1) ?? "")
    ? names
        .join("_")
        .toUpperCase()
        .replaceAll(/[^A-Z0-9_]/g, "_")
        .replace(/^(?=\d)/, "_")
    : undefined

/** A change that was made to a file. */
export interface Change {
  readonly file: "config.yaml" | ".env"
  /** The key as written in the changed file. */
  readonly key: string
  /** True if the key had a value in that file before the change. */
  readonly wasSet: boolean
  /** Remarks about the change: an unknown key, a number that was clamped to its bounds. */
  readonly warnings: ReadonlyArray<string>
}

type EditServices = FileSystem.FileSystem | Home | Path.Path

const makeEditError = (key: string): ConfigError =>
  makeKeyError(key, "config.yaml is laid out in a way that this command cannot change safely: use `hermes config edit`")

/**
 * Converts text that a user typed to the type that the key at `path` expects. If the key accepts any type, the text is
 * parsed as YAML.
 */
const parseTyped = (text: string, path: ReadonlyArray<string>, yaml: Yaml.Yaml): unknown => {
  const shape = SettingsShape.findShapeOfPath(path)
  const isText = shape?._tag === "Value" && !shape.kinds.has("anything")
  if (shape !== undefined && (isText || !/^\s*[[{]/.test(text)))
    return text === "null" ? null : Tree.coerce(text, shape)
  return /^\s*[#&*!|>]/.test(text) ? text : Result.getOrElse(yaml.parse(text), () => text)
}

/** A place and its new value; `undefined` removes it. */
interface Assignment {
  readonly path: ReadonlyArray<string>
  readonly value: unknown
  /** The key to show in errors; defaults to the formatted `path`. */
  readonly key?: string
}

/**
 * Changes several keys of `config.yaml`. If one change fails, the file remains unchanged. `decide` receives the current
 * content of the file and returns the changes and a function that builds the result.
 */
const changeFile = Effect.fnUntraced(function* <A>(
  decide: (
    tree: unknown,
    yaml: Yaml.Yaml
  ) => Effect.Effect<
    { readonly assignments: ReadonlyArray<Assignment>; readonly result: (warnings: ReadonlyArray<string>) => A },
    ConfigError
  >
): Effect.fn.Return<A, ConfigError, EditServices> {
  const home = yield* Home
  const yaml = yield* Yaml.load
  yield* home.ensure
  return yield* updateText(
    home.database,
    home.config,
    Effect.fnUntraced(function* (before) {
      let text = before
      let tree: unknown = yield* yaml.read(before, "config.yaml")
      const { assignments, result } = yield* decide(tree, yaml)
      const warnings: Array<string> = []
      for (const { key, path, value } of assignments) {
        const reserved = Tree.findReservedName(path) ?? Tree.findPrototypeKey(value)?.at(-1)
        if (reserved !== undefined) {
          return yield* makeKeyError(
            key ?? Tree.formatPath(path),
            `${reserved} cannot be the name of a setting: use another name`
          )
        }
        if (value !== undefined) warnings.push(...(yield* Config.judgeChange(Tree.set(tree, path, value), path)))
        const edited = value === undefined ? YamlEdit.unset(yaml, text, path) : YamlEdit.set(yaml, text, path, value)
        if (edited === undefined) return yield* makeEditError(key ?? Tree.formatPath(path))
        text = edited
        tree = value === undefined ? Tree.remove(tree, path) : Tree.set(tree, path, value)
      }
      return { text, result: result(warnings) }
    })
  )
})

/**
 * Changes one key of `config.yaml`. `decide` receives the current content of the file and returns the place and its new
 * value.
 */
const changePlace = (key: string, decide: (tree: unknown, yaml: Yaml.Yaml) => Effect.Effect<Assignment, ConfigError>) =>
  changeFile((tree, yaml) =>
    Effect.map(decide(tree, yaml), (one) => ({
      assignments: [{ ...one, key }],
      result: (warnings): Change => ({
        file: "config.yaml",
        key: Tree.formatPath(one.path),
        wasSet: Tree.get(tree, one.path) !== undefined,
        warnings
      })
    }))
  )

const changeEnv = Effect.fnUntraced(function* (
  name: string,
  edit: (text: string) => string
): Effect.fn.Return<Change, ConfigError, EditServices> {
  const home = yield* Home
  yield* home.ensure
  return yield* updateText(home.database, home.env, (text) =>
    Effect.succeed({
      text: edit(text),
      result: { file: ".env" as const, key: name, wasSet: Object.hasOwn(DotEnv.parse(text), name), warnings: [] }
    })
  )
})

/** Sets a key to a value that a user typed as text. */
export const set = Effect.fn("Edit.set")(function* (
  key: string,
  text: string
): Effect.fn.Return<Change, ConfigError, EditServices> {
  const names = yield* splitChangedKey(key)
  const variable = findSecretVariable(names)
  if (variable !== undefined) {
    const kept = yield* changeEnv(variable, (file) => DotEnv.set(file, variable, text))
    if (names.length === 1) return kept
  }
  return yield* changePlace(key, (tree, yaml) =>
    Effect.map(locate(tree, key), (path) => ({
      path,
      value: variable === undefined ? parseTyped(text, path, yaml) : `\${${variable}}`
    }))
  )
})

/** Keys of the main model's section that {@link setModel} sets. */
interface ModelChange
  extends
    Readonly<Record<"default", string>>,
    Readonly<Record<"provider" | "base_url" | "api_mode", string | undefined>> {}

const toText = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

/**
 * Sets the main model. Removes the keys that belonged to the old provider or address, and returns them. All changes are
 * written together; if one fails, nothing is written.
 */
export const setModel = (wanted: ModelChange): Effect.Effect<ReadonlyArray<string>, ConfigError, EditServices> =>
  changeFile((tree) => {
    const readMember = (key: string): unknown => Tree.get(tree, ["model", key])
    const old = { provider: toText(readMember("provider")), baseUrl: toText(readMember("base_url")) }
    const said = Object.entries(wanted).filter(([, value]) => value !== undefined)
    const gone = RouteStatement.listSuperseded(old, { provider: wanted.provider, baseUrl: wanted.base_url })
      .map((member) => RouteStatement.fileKeys[member])
      .filter((key) => readMember(key) !== undefined && !said.some(([name]) => name === key))
    const changed = [...gone.map((key) => [key, undefined] as const), ...said]
    return Effect.succeed({
      assignments: changed.map(([key, value]) => ({ path: ["model", key], value })),
      result: () => gone.map((key) => `model.${key}`)
    })
  })

/**
 * Sets a key to the result of `next`, which receives the current value in the file. If `next` returns `undefined`, the
 * key is removed.
 */
export const modify = (
  path: ReadonlyArray<string>,
  next: (value: unknown) => unknown
): Effect.Effect<Change, ConfigError, EditServices> =>
  changePlace(Tree.formatPath(path), (tree) => Effect.succeed({ path, value: next(Tree.get(tree, path)) }))

/** Removes a key and every section that becomes empty. A missing key is not an error. */
export const unset = Effect.fn("Edit.unset")(function* (
  key: string
): Effect.fn.Return<Change, ConfigError, EditServices> {
  const names = yield* splitChangedKey(key)
  const variable = findSecretVariable(names)
  if (variable !== undefined) {
    const kept = yield* changeEnv(variable, (file) => DotEnv.unset(file, variable))
    if (names.length === 1) return kept
  }
  return yield* changePlace(key, (tree) => Effect.map(locate(tree, key), (path) => ({ path, value: undefined })))
})

/** Keys whose values hold parameters of any shape. */
const openKeys: ReadonlySet<string> = new Set(["middlewares", "plugins"])

const encodeSettings = (settings: Values): Tree.Mapping => {
  const encoded: Tree.Mapping = Schema.encodeSync(SettingsSchema)(settings)
  const { [providerKeysKey]: pools, ...others } = encoded
  // Parameters of plugins and middleware have no Schema here, so their secrets are detected by key and shape.
  const rest = Object.fromEntries(
    Object.entries(others).map(([key, value]) => [key, openKeys.has(key) ? redactValue(value) : value])
  )
  return Tree.isMapping(pools) ? { ...rest, ...pools } : rest
}

/** The settings in effect, under the keys of the file, with masked secrets. */
interface MaskedSettings {
  readonly values: Tree.Mapping
  /** Keys that are omitted or differ from the user's input, one line each. */
  readonly warnings: ReadonlyArray<string>
}

/** Returns all settings that are in effect, with masked secrets. */
export const readAllSettings = Effect.fn("Edit.readAllSettings")(function* (
  options: Config.Options = {}
): Effect.fn.Return<MaskedSettings, ConfigError, Environment | FileSystem.FileSystem | Home> {
  const { refusals, settings, warnings } = yield* Config.load(options)
  return { values: Config.withoutUnsupported(encodeSettings(settings)), warnings: [...refusals, ...warnings] }
})

/** Tests whether a key is declared in the settings or is the name of a secret. */
export const isKnown = (key: string): Effect.Effect<boolean, ConfigError> =>
  Effect.map(
    splitKey(key),
    (names) => SettingsShape.findShapeOfPath(names) !== undefined || findSecretVariable(names) !== undefined
  )

/** Returns the known key that is closest to an unknown key; `undefined` if no key is close. */
export const findNearestKey = (key: string): Effect.Effect<string | undefined, ConfigError> =>
  Effect.map(splitKey(key), (names) => SettingsShape.findNearestPath(names)?.join("."))

/**
 * Returns the effective value of a key, whether it comes from the file, the environment or the default. Secrets are
 * masked.
 */
export const get = Effect.fn("Edit.get")(function* (
  key: string
): Effect.fn.Return<Option.Option<unknown>, ConfigError, Environment | FileSystem.FileSystem | Home> {
  const names = yield* splitKey(key)
  if (names.length === 1 && findSecretVariable(names) !== undefined) {
    const environment = yield* Environment
    return Option.map(Option.fromUndefinedOr(environment.get(names.join("").toUpperCase())), mask)
  }
  const { settings } = yield* Config.load()
  return Option.fromUndefinedOr(lookUp(encodeSettings(settings), names))
})

/** Returns the warnings about parts of a key's value that have no effect yet. */
export const listUnsupported = (key: string, value: unknown): Effect.Effect<ReadonlyArray<string>, ConfigError> =>
  Effect.map(splitKey(key), (names) =>
    Config.listRemarksAt(names, value).map(({ path, text }) => `${Tree.formatPath(path)}: ${text}`)
  )
