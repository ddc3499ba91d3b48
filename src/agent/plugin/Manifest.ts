/**
 * Reads `plugin.yaml`, the identity of a plugin on disk. The manifest is only descriptive: the module's contribution
 * determines the registered parts.
 *
 * **Details**
 *
 * The fields are `name`, `version`, `description`, `author`, `kind`, `requires_env`, `provides_tools`, `provides_hooks`
 * (or `hooks`), `config` (see `ConfigFields`), `manifest_version` and `api_version`, the version of the plugin contract
 * that the plugin is written for. A plugin for another version is not loaded. A field of the wrong type counts as
 * absent, and unknown fields are left to the plugin. A manifest that is not a YAML mapping is an error.
 *
 * Source: `hermes-contract.md` §3.2.
 */
import * as Effect from "effect/Effect"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as ConfigFields from "./ConfigFields.ts"
import { contractVersion } from "./GivenConfig.ts"

/** Purpose of a plugin. Only `standalone`, `backend` and `platform` are loaded here. */
const kinds = ["standalone", "backend", "exclusive", "platform", "model-provider"] as const

/** Kind of a plugin; see {@link kinds}. */
export type Kind = (typeof kinds)[number]

/** An environment variable that a plugin requires. */
interface RequiredVariable {
  readonly name: string
  readonly description: string | undefined
}

/** Fields of a `plugin.yaml`. */
export interface Manifest {
  /** Name of the plugin. `undefined` if the manifest has no name; the directory's name is then used. */
  readonly name: string | undefined
  readonly version: string
  readonly description: string
  readonly author: string
  /** Kind of the plugin, absent if the manifest does not state it. */
  readonly kind: Kind | undefined
  readonly requiresEnv: ReadonlyArray<RequiredVariable>
  readonly providesTools: ReadonlyArray<string>
  readonly providesHooks: ReadonlyArray<string>
  readonly manifestVersion: number
  /** Version of the plugin contract stated in the manifest, if any. */
  readonly apiVersion: string | undefined
  /** Settings of the plugin. */
  readonly config: ConfigFields.Declarations
}

/** Possible file names of a manifest. The first existing file is used. */
export const fileNames = ["plugin.yaml", "plugin.yml"] as const

/** Latest supported version of the manifest format. */
export const latestVersion = 2

export { contractVersion } from "./GivenConfig.ts"

/**
 * Returns the reason why a plugin with the stated contract version cannot be used. The version is a number or a name
 * that contains one (`hermes.middleware.v1`). `undefined` if the program supports the version or the plugin states no
 * version.
 */
export const findContractProblem = (stated: unknown): string | undefined => {
  if (stated === undefined || stated === null || stated === "") return undefined
  const version = /^(?:hermes\.\w+\.)?v?(\d+)(?:\.\d+)*$/.exec(String(stated))?.[1]
  if (version === String(contractVersion)) return undefined
  const what = Json.toText(stated).slice(0, 80)
  return (
    `it is written for version ${version ?? what} of the plugin contract, ` +
    `and this program has version ${contractVersion}: ` +
    (Number(version) > contractVersion
      ? "update hermes, or install an older version of the plugin"
      : "install a newer version of the plugin")
  )
}

/** A manifest without any fields. */
export const empty: Manifest = {
  name: undefined,
  version: "",
  description: "",
  author: "",
  kind: undefined,
  requiresEnv: [],
  providesTools: [],
  providesHooks: [],
  manifestVersion: 1,
  apiVersion: undefined,
  config: ConfigFields.none
}

type Mapping = Readonly<Record<string, unknown>>

/** Returns a value as text, including values that YAML parsed as a number (`version: 1.0`). */
const readText = (value: unknown): string =>
  typeof value === "string"
    ? value.trim()
    : typeof value === "number" || typeof value === "boolean"
      ? String(value)
      : ""

const readTexts = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value) ? value.map(readText).filter((text) => text !== "") : []

const readVariable = (value: unknown): ReadonlyArray<RequiredVariable> => {
  const name = readText(Json.isFields(value) ? value["name"] : value)
  const description = Json.isFields(value) ? readText(value["description"]) : ""
  return name === "" ? [] : [{ name, description: description === "" ? undefined : description }]
}

const isKind = (value: string): value is Kind => kinds.some((kind) => kind === value)

const describeUnknownKind = (kind: string): string => {
  const meant = findNearest(kind, kinds)
  return (
    `unknown kind "${kind}", expected one of ` +
    `${kinds.join(", ")}${meant === undefined ? "" : `, did you mean ${meant}?`}; ` +
    "it counts as standalone"
  )
}

/** A decoded manifest, and warnings about invalid fields. */
interface DecodedManifest {
  readonly manifest: Manifest
  readonly warnings: ReadonlyArray<string>
}

const decodeManifest = (value: Mapping): DecodedManifest => {
  const kind = readText(value["kind"]).toLowerCase()
  const layout = value["manifest_version"]
  const manifestVersion = typeof layout === "number" ? layout : 1
  const config = ConfigFields.readDeclarations(value["config"])
  return {
    manifest: {
      name: readText(value["name"]) || undefined,
      version: readText(value["version"]),
      description: readText(value["description"]),
      author: readText(value["author"]),
      kind: kind === "" ? undefined : isKind(kind) ? kind : "standalone",
      requiresEnv: Array.isArray(value["requires_env"]) ? value["requires_env"].flatMap(readVariable) : [],
      providesTools: readTexts(value["provides_tools"]),
      providesHooks: readTexts(value["provides_hooks"] ?? value["hooks"]),
      manifestVersion,
      apiVersion: readText(value["api_version"]) || undefined,
      config
    },
    warnings: [
      ...config.problems.map(({ message, path }) => `${["config", ...path].join(".")}: ${message}`),
      ...(kind === "" || isKind(kind) ? [] : [describeUnknownKind(kind)]),
      ...(manifestVersion > latestVersion
        ? [
            `manifest_version ${manifestVersion} is newer than the supported ${latestVersion}; ` +
              "parts of it may be ignored"
          ]
        : [])
    ]
  }
}

/** Decodes the text of a manifest. `file` names the manifest in errors. */
export const readManifest = (text: string, file: string): Effect.Effect<DecodedManifest, ConfigError> =>
  Effect.flatMap(Yaml.read(text, file), (value) => {
    if (value === undefined || value === null) return Effect.succeed({ manifest: empty, warnings: [] })
    return Json.isFields(value)
      ? Effect.succeed(decodeManifest(value))
      : Effect.fail(new ConfigError({ path: file, message: `${file}: expected a mapping of keys such as \`name: …\`` }))
  })

/** Number of characters of a module that are examined for its kind. */
const markerChars = 8192

/**
 * Infers the kind of a plugin without a stated kind from the functions that it calls. A memory or model provider is
 * loaded by the part that uses it, not as a plugin.
 */
export const guessKind = (module: string): Kind => {
  const head = module.slice(0, markerChars)
  if (/register_?memory_?provider|MemoryProvider/i.test(head)) return "exclusive"
  return /register_model_provider|registerModelProvider|ProviderProfile/.test(head) ? "model-provider" : "standalone"
}
