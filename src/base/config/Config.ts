/**
 * Loads and checks the settings. For every key, flags override the environment, which overrides `.env`, then
 * `config.yaml`, then the default.
 *
 * **Details**
 *
 * An invalid value causes a one-line error with the key, the expected value and the actual value. An unknown key, a key
 * without effect, or a number out of bounds causes a warning. The YAML reader is loaded only if there is a
 * `config.yaml`.
 *
 * {@link checkSettings} reads all settings; {@link judgeChange} checks a single change before it is made. Keys without
 * a value (`base_url:`) count as absent. In the definition of a key, `Fields.markUnsupported` marks that the key is
 * accepted but not implemented yet. A value that describes the actual behavior does not cause a warning; if safety
 * depends on such a key, no run starts.
 *
 * **Gotchas**
 *
 * A route is one value. A source that names another provider or address removes the values that weaker sources set for
 * the old one: key, address, protocol, model options (`RouteStatement`). `OPENAI_BASE_URL` is for endpoints that speak
 * OpenAI's protocol; it is used only if the provider is `auto`, `openai` or `custom`. Settings without a main model use
 * the default model of a provider whose key is in the environment (`DefaultModel`).
 *
 * If a run of another `hermes` started this program, the limits of that run ({@link Inherited}) tighten the settings
 * from all sources.
 *
 * Source: `ARCHITECTURE.md` §7 and §8, `hermes-product.md` §6.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type * as SchemaIssue from "effect/SchemaIssue"
import { ConfigError } from "../domain/AgentError.ts"
import { redactText } from "../domain/Redaction.ts"
import { registerSecrets, Secrets } from "../domain/Secrets.ts"
import { findNearest } from "../domain/Similarity.ts"
import * as TextCut from "../domain/TextCut.ts"
import { HiddenVariables, type Variables as ProcessValues } from "../platform/ProcessVariables.ts"
import * as DefaultModel from "./DefaultModel.ts"
import * as DerivedSettings from "./DerivedSettings.ts"
import { Environment, Home, make as makeEnvironment, readText } from "./Environment.ts"
import * as InheritedLimits from "./InheritedLimits.ts"
import { providerKeysKey } from "./internal/FileKeys.ts"
import * as SettingsShape from "./internal/SettingsShape.ts"
import * as Tree from "./internal/Tree.ts"
import { Settings, type Values } from "./Settings.ts"
import { SettingsSchema } from "./SettingsSchema.ts"
import * as SettingVariables from "./SettingVariables.ts"
import * as SettingSources from "./SettingSources.ts"
import * as Yaml from "./Yaml.ts"

/** A remark about a place in the settings. */
interface Remark {
  readonly path: Tree.Path
  readonly text: string
  /** True if no run may start because of this remark. */
  readonly stops: boolean
}

type RemarkBody = Omit<Remark, "path">

const withoutEffect = (remedy = "remove it"): RemarkBody => ({
  text: `not supported yet, has no effect; ${remedy}`,
  stops: false
})

/**
 * Returns a remark if the value under a name of `parent` has no effect because its key is not supported yet;
 * `undefined` otherwise.
 */
const findRemark = (parent: Tree.Shape, name: string | number, value: unknown): RemarkBody | undefined => {
  if (parent._tag === "MapOf" && parent.facts.unsupportedNames?.includes(String(name)) === true) return withoutEffect()
  const shape = Tree.findShape(parent, [name])
  const mark = shape === undefined ? undefined : Tree.readUnsupported(shape)
  if (mark === undefined || mark.holds === "any") return undefined
  const said = JSON.stringify(value)
  if (mark.holds.some((holds) => JSON.stringify(holds) === said)) return undefined
  return mark.stops === true
    ? { text: `${String(value)} is not supported yet: ${mark.remedy ?? "remove it"}`, stops: true }
    : withoutEffect(mark.remedy)
}

/**
 * Returns the remarks about a value and all of its parts. The value is the whole settings, or the value at `path`, in
 * raw or decoded form.
 */
const listRemarks = (
  value: unknown,
  shape: Tree.Shape | undefined = SettingsShape.getRootShape(),
  path: Tree.Path = []
): ReadonlyArray<Remark> => {
  if (shape === undefined || shape._tag === "Value" || typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([name, item]) => {
    // Decoded fields of a section are in camelCase; names in a map and positions in a list are the same in both forms.
    const key = shape._tag === "Section" ? Tree.findFileKey(shape, name) : shape._tag === "ListOf" ? Number(name) : name
    const found = findRemark(shape, key, item)
    return found === undefined
      ? listRemarks(item, Tree.findShape(shape, [key]), [...path, key])
      : [{ path: [...path, key], ...found }]
  })
}

/** Returns the remarks about the value of one key. */
export const listRemarksAt = (path: ReadonlyArray<string>, value: unknown): ReadonlyArray<Remark> => {
  const parent = path.length === 1 ? SettingsShape.getRootShape() : SettingsShape.findShapeOfPath(path.slice(0, -1))
  const found = parent === undefined ? undefined : findRemark(parent, path.at(-1) ?? "", value)
  return found === undefined ? listRemarks(value, SettingsShape.findShapeOfPath(path), path) : [{ path, ...found }]
}

/** Removes the values that have no effect from a tree of settings with the keys of the file. */
export const withoutUnsupported = (tree: Tree.Mapping): Tree.Mapping => {
  const dropUnsupported = (value: Tree.Mapping, shape: Tree.Shape): Tree.Mapping =>
    Object.fromEntries(
      Object.entries(value).flatMap(([key, item]) => {
        if (findRemark(shape, key, item) !== undefined) return []
        const inside = Tree.findShape(shape, [key])
        if (inside === undefined || !Tree.isMapping(item) || Object.keys(item).length === 0) return [[key, item]]
        const left = dropUnsupported(item, inside)
        return Object.keys(left).length === 0 ? [] : [[key, left]]
      })
    )
  return dropUnsupported(tree, SettingsShape.getRootShape())
}

/** Returns an error if the settings prevent every run from starting; `undefined` otherwise. */
export const findRefusal = (settings: Values): ConfigError | undefined => {
  const found = listRemarks(settings).find(({ stops }) => stops)
  if (found === undefined) return undefined
  const path = Tree.formatPath(found.path)
  return new ConfigError({ path, message: `${path}: ${found.text}` })
}

/**
 * Collects the top-level sections `<provider>.api_keys` under one key that the Schema declares, because their provider
 * names are arbitrary.
 */
const gatherProviderKeys = (tree: unknown): unknown => {
  if (!Tree.isMapping(tree)) return tree
  const { fields } = SettingsShape.getRootShape()
  const isPool = ([key, value]: readonly [string, unknown]): boolean =>
    !fields.has(key) && Tree.isMapping(value) && Object.hasOwn(value, "api_keys")
  const entries = Object.entries(tree)
  const pools = entries.filter(isPool)
  if (pools.length === 0) return tree
  return {
    ...Object.fromEntries(entries.filter((entry) => !isPool(entry))),
    [providerKeysKey]: Object.fromEntries(pools)
  }
}

/**
 * Prepares raw settings for the Schema. Returns the prepared settings, and remarks about changed and ignored values.
 */
const prepareTree = (tree: unknown): { readonly tree: unknown; readonly remarks: ReadonlyArray<Remark> } => {
  const found: Array<Remark> = []
  const root = SettingsShape.getRootShape()

  const prepareScalar = (value: unknown, { facts }: Tree.Value, path: Tree.Path): unknown => {
    if (typeof value === "string" && facts.words === true) return Tree.parseBoolean(value) ?? value
    if (facts.scalars === true && (typeof value === "number" || typeof value === "boolean")) return String(value)
    if (typeof value !== "number") return value
    const bounded = Math.min(Math.max(value, facts.least ?? -Infinity), facts.most ?? Infinity)
    if (bounded !== value && !Number.isNaN(value)) {
      found.push({ path, text: `${value} is out of bounds, using ${bounded}`, stops: false })
      return bounded
    }
    return value
  }

  const reportUnknownKey = (key: string, { fields, open }: Tree.Section, path: Tree.Path): void => {
    const meant = findNearest(key, fields.keys())
    if (open && meant === undefined) return
    const hint = meant === undefined ? "" : `; did you mean "${Tree.formatPath([...path.slice(0, -1), meant])}"?`
    found.push({ path, text: `unknown key, ignored${hint}`, stops: false })
  }

  const prepareNode = (value: unknown, shape: Tree.Shape, path: Tree.Path): unknown => {
    switch (shape._tag) {
      case "Section": {
        if (!Tree.isMapping(value)) return value
        return Object.fromEntries(
          Object.entries(value).flatMap(([key, item]) => {
            const field = shape.fields.get(key)
            if (field === undefined) reportUnknownKey(key, shape, [...path, key])
            return field === undefined || item === null || item === ""
              ? []
              : [[key, prepareNode(item, field, [...path, key])]]
          })
        )
      }
      case "MapOf": {
        if (!Tree.isMapping(value)) return value
        const present = Object.entries(value).filter(([, item]) => item !== null)
        return Object.fromEntries(present.map(([key, item]) => [key, prepareNode(item, shape.item, [...path, key])]))
      }
      case "ListOf":
        return Array.isArray(value)
          ? value.map((item, index) => prepareNode(item, shape.item, [...path, index]))
          : value
      case "Value":
        return shape.section !== undefined && Tree.isMapping(value)
          ? prepareNode(value, shape.section, path)
          : prepareScalar(value, shape, path)
    }
  }

  const prepared = prepareNode(tree, root, [])
  return { tree: prepared, remarks: [...found, ...listRemarks(prepared, root)] }
}

/** Returns the path of each issue. The Schema may report a key by its name in the file or by its decoded name. */
const listIssuePaths = (
  issue: SchemaIssue.Issue,
  path: ReadonlyArray<PropertyKey> = []
): ReadonlyArray<ReadonlyArray<PropertyKey>> => {
  switch (issue._tag) {
    case "Pointer":
      return listIssuePaths(issue.issue, [...path, ...issue.path])
    case "Encoding":
    case "Filter":
      return listIssuePaths(issue.issue, path)
    case "Composite":
      return issue.issues.flatMap((inner) => listIssuePaths(inner, path))
    default:
      return [path]
  }
}

/** Converts a path to the keys of the file. Removes the part below the deepest declared key. */
const toFilePath = (path: ReadonlyArray<PropertyKey>): Tree.Path => {
  const out: Array<string | number> = []
  let shape: Tree.Shape | undefined = SettingsShape.getRootShape()
  for (const key of path) {
    const name: string | number =
      typeof key === "number" ? key : shape._tag === "Section" ? Tree.findFileKey(shape, String(key)) : String(key)
    const inside: Tree.Shape | undefined = Tree.findShape(shape, [name])
    if (inside === undefined) break
    out.push(name)
    shape = inside
  }
  return out
}

const maxShownChars = 60

/** Describes a value for an error message, without secrets. */
const describeFound = (value: unknown, shape: Tree.Shape | undefined): string => {
  if (value === undefined || value === null) return "nothing"
  if (Array.isArray(value)) return "a list"
  if (Tree.isMapping(value)) return "a mapping"
  if (shape !== undefined && Tree.isSecret(shape)) return `a ${typeof value}`
  return typeof value === "string" ? JSON.stringify(TextCut.shorten(redactText(value), maxShownChars)) : String(value)
}

/** Returns one line for each place that the Schema rejected. */
const explainIssue = (
  issue: SchemaIssue.Issue,
  tree: unknown
): ReadonlyArray<{ readonly path: Tree.Path; readonly text: string }> => {
  const paths = new Map(
    listIssuePaths(issue).map((place) => {
      const path = toFilePath(place)
      return [Tree.formatPath(path), path]
    })
  )
  return Array.from(paths.values(), (path) => {
    const shape = Tree.findShape(SettingsShape.getRootShape(), path)
    const expected = shape === undefined ? "a mapping" : Tree.describeExpected(shape)
    return { path, text: `expected ${expected}, got ${describeFound(Tree.get(tree, path), shape)}` }
  })
}

const decode = Schema.decodeUnknownResult(SettingsSchema)

/** Decodes raw settings with the Schema. Returns the settings, or one line for each rejected place. */
const checkSettings = (raw: unknown) => {
  const { remarks, tree } = prepareTree(gatherProviderKeys(raw))
  const decoded = decode(tree, { errors: "all" })
  if (decoded._tag === "Success") return { tree, remarks, settings: decoded.success, wrong: [] }
  /**
   * Each rejected place. If a key is missing because it is misspelled, the remark about the misspelled key is added.
   */
  const wrong = explainIssue(decoded.failure.issue, tree).map(({ path, text }) => {
    const misspelt = remarks.find(
      (remark) =>
        remark.path.length > path.length &&
        Tree.isMapping(Tree.get(tree, path)) &&
        path.every((key, index) => remark.path[index] === key)
    )
    return {
      path,
      text: misspelt === undefined ? text : `${text}; ${Tree.formatPath(misspelt.path)}: ${misspelt.text}`
    }
  })
  return { tree, remarks, settings: undefined, wrong }
}

/** Returns a function that tests whether a place is at, below or above `path`. */
const isTouching =
  (path: ReadonlyArray<string>) =>
  (place: { readonly path: Tree.Path }): boolean => {
    const other = Tree.toFilePath(place.path)
    return other.slice(0, path.length).every((key, index) => String(key) === path[index])
  }

/**
 * Returns the remarks about a changed place. Fails if the value at the place is rejected. A value that refers to a
 * variable is not rejected, because the variable is read later.
 */
export const judgeChange = (
  raw: unknown,
  path: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, ConfigError> => {
  const { remarks, tree, wrong } = checkSettings(raw)
  const renderYamlLine = ({ path, text }: { readonly path: Tree.Path; readonly text: string }) =>
    `${Tree.formatPath(path)}: ${text}`
  const own = wrong.filter(isTouching(path)).filter((place) => !String(Tree.get(tree, place.path)).includes("${"))
  return own.length === 0
    ? Effect.succeed(remarks.filter(isTouching(path)).map(renderYamlLine))
    : Effect.fail(new ConfigError({ path: Tree.formatPath(path), message: own.map(renderYamlLine).join("\n") }))
}

/** A command-line flag that sets a key. */
export interface Flag {
  /** Name as the user wrote it: `--max-turns`. */
  readonly name: string
  /** The key in the file: `agent.max_turns`. */
  readonly key: string
  /** Value of the flag; `undefined` if the flag was not given. */
  readonly value: unknown
}

/** Options of {@link load}. */
export interface Options {
  readonly flags?: ReadonlyArray<Flag> | undefined
  /** Settings of an agent file, which override the environment and are overridden by flags. */
  readonly agent?: ReadonlyArray<Flag> | undefined
  /** Ignores `config.yaml`. `.env` is still read, because it holds the keys. */
  readonly ignoreUserConfig?: boolean | undefined
  /**
   * Disables everything that runs third-party code or programs: plugins, middleware, shell hooks, MCP servers, external
   * memory.
   */
  readonly safeMode?: boolean | undefined
}

/** Returns the settings without plugins, middleware, shell hooks, MCP servers and external memory. */
const stripForeignCode = ({ memory: { provider: _, ...memory }, ...settings }: Values): Values => ({
  ...settings,
  memory,
  plugins: { ...settings.plugins, enabled: [], packages: [] },
  middlewares: [],
  hooks: {},
  mcpServers: {}
})

/** Settings, with warnings and reasons for refusing to run. */
export interface LoadedSettings {
  readonly settings: Values
  readonly warnings: ReadonlyArray<string>
  /** Reasons why no run may start with these settings, one line each. */
  readonly refusals: ReadonlyArray<string>
}

/** Sources of the settings. */
export interface SettingsInput {
  /** The parsed value of `config.yaml`; `undefined` if there is no file. */
  readonly file: unknown
  readonly environment: Environment["Service"]
  readonly flags: ReadonlyArray<Flag>
  readonly agent?: ReadonlyArray<Flag> | undefined
}

const toAssignments = ({ key, name, value }: Flag): ReadonlyArray<SettingSources.Assignment> => {
  const path = key.split(".")
  return value === undefined ? [] : [{ path, value, origin: SettingSources.makeOrigin(name, path, "flags") }]
}

const toConfigError = (lines: ReadonlyArray<{ readonly path: string; readonly text: string }>): ConfigError =>
  new ConfigError({ path: lines[0]?.path ?? "config.yaml", message: lines.map(({ text }) => text).join("\n") })

/** Merges the sources and decodes the settings. Also returns warnings and the reasons why no run may start. Pure. */
export const resolve = ({
  agent = [],
  environment,
  file,
  flags
}: SettingsInput): Effect.Effect<LoadedSettings, ConfigError> =>
  Effect.suspend(() => {
    if (file !== undefined && file !== null && !Tree.isMapping(file)) {
      return Effect.fail(new ConfigError({ path: "config.yaml", message: "config.yaml: expected a mapping of keys" }))
    }
    const { missing, tree } = SettingsShape.expand(
      file ?? {},
      (name) => environment.process[name] ?? environment.file[name]
    )
    const fromFile = SettingVariables.readVariables(environment.file, "env-file")
    const fromProcess = SettingVariables.readVariables(environment.process, "environment")
    const levels = [
      fromFile.assignments,
      fromProcess.assignments,
      agent.flatMap(toAssignments),
      flags.flatMap(toAssignments)
    ]
    const stated = SettingSources.mergeLevels(tree, levels)
    const chosen = DefaultModel.chooseByKey(stated.tree, environment)
    const layers = chosen.length === 0 ? stated : SettingSources.mergeLevels(tree, [...levels, chosen])
    const origins = SettingSources.collectOrigins(layers.assignments)
    const { remarks, settings, wrong } = checkSettings(layers.tree)
    const renderYamlLine = (path: Tree.Path, text: string) => ({
      path: Tree.formatPath(path),
      text: `${SettingSources.formatLabel(origins, path)}: ${text}`
    })
    const lines = [
      ...missing.map(({ path, reference, variable }) =>
        renderYamlLine(path, `${reference} is not set: set ${variable} in the environment or in .env`)
      ),
      ...wrong.map(({ path, text }) => renderYamlLine(path, text))
    ]
    if (settings === undefined || lines.length > 0) return Effect.fail(toConfigError(lines))
    const guardrail = DerivedSettings.readGuardrail(settings)
    const formatRemarks = (stops: boolean) =>
      remarks.flatMap((remark) => (remark.stops === stops ? [renderYamlLine(remark.path, remark.text).text] : []))
    return Effect.succeed({
      settings: { ...settings, sources: SettingSources.make(origins, layers.dropped) },
      warnings: [...formatRemarks(false), ...fromFile.remarks, ...fromProcess.remarks],
      refusals: [...formatRemarks(true), ...(guardrail._tag === "Failure" ? [guardrail.failure.message] : [])]
    })
  })

const readFile = (path: string): Effect.Effect<unknown, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(
    readText(path),
    Option.match({ onNone: () => Effect.undefined, onSome: (text) => Yaml.read(text, "config.yaml") })
  )

/**
 * Hides from started programs the environment variables that provide secrets to the settings, regardless of the names
 * of the variables.
 */
const hideNamed = Effect.fnUntraced(function* ({ settings }: LoadedSettings, file: unknown, variables: ProcessValues) {
  const { mask } = yield* Secrets
  const { hide } = yield* HiddenVariables
  const { customProviders, fallbackProviders, server } = settings
  const holders = [
    ...customProviders,
    ...fallbackProviders,
    ...Object.values(server.keys),
    ...DerivedSettings.listTenantRoutes(settings)
  ]
  hide([
    ...holders.flatMap(({ keyEnv }) => keyEnv ?? []),
    ...Tree.listReferences(file).filter((name) => {
      const value = variables[name]
      return value !== undefined && mask(value) !== value
    })
  ])
})

/** Loads the settings of the home directory. */
export const load = Effect.fn("Config.load")(function* (
  options: Options = {}
): Effect.fn.Return<LoadedSettings, ConfigError, Environment | FileSystem.FileSystem | Home> {
  const home = yield* Home
  const environment = yield* Environment
  const file = options.ignoreUserConfig === true ? undefined : yield* readFile(home.config)
  const resolved = yield* resolve({ file, environment, flags: options.flags ?? [], agent: options.agent })
  const loaded = options.safeMode === true ? { ...resolved, settings: stripForeignCode(resolved.settings) } : resolved
  yield* registerSecrets(loaded.settings)
  yield* hideNamed(loaded, file, environment.process)
  const limits = InheritedLimits.readLimits(environment.process)
  if (limits === undefined) return loaded
  const { values, warnings } = InheritedLimits.tightenSettings(loaded.settings, limits)
  return { ...loaded, settings: values, warnings: [...loaded.warnings, ...warnings] }
})

const logWarnings = ({ settings, warnings }: LoadedSettings): Effect.Effect<Values> =>
  Effect.as(
    Effect.forEach(warnings, (warning) => Effect.logWarning(warning), { discard: true }),
    settings
  )

/** Provides the settings as a service and logs their warnings. */
const layer = (options: Options = {}): Layer.Layer<Settings, ConfigError, Environment | FileSystem.FileSystem | Home> =>
  Layer.effect(Settings, Effect.flatMap(load(options), logWarnings))

/** Provides the home directory, the environment and the settings; requires only a platform. */
export const layerAll = (
  options: Options = {}
): Layer.Layer<Environment | Home | Settings, ConfigError, FileSystem.FileSystem | Path.Path> =>
  layer(options).pipe(Layer.provideMerge(Environment.layer), Layer.provideMerge(Home.layer))

/**
 * Provides settings that an application defines with the keys of the configuration file. Omitted keys have their
 * defaults. Warnings are logged.
 */
export const layerFromFile = (file: Tree.Mapping = {}): Layer.Layer<Settings, ConfigError> =>
  Layer.effect(Settings, Effect.flatMap(resolve({ file, environment: makeEnvironment({}), flags: [] }), logWarnings))
