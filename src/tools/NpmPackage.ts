/**
 * Downloads a package of an npm registry as its tarball. The package is not unpacked or run here, and its scripts never
 * run.
 *
 * **Details**
 *
 * The registry comes from npm's own configuration: `npm_config_registry`, or `registry` and `@scope:registry` of the
 * user's `.npmrc`, with its `_authToken`; a `.npmrc` of the working directory is not read. The address must pass the
 * address checks of the web tools. A registry other than npm's own may be in a private network, but may then not
 * redirect elsewhere. The bytes must match the strongest hash that the registry provides; a package without a SHA-2
 * hash is refused.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type { Environment } from "../base/config/Environment.ts"
import * as Digest from "../base/platform/Digest.ts"
import * as Fetch from "./fence/Fetch.ts"
import * as Urls from "./fence/Urls.ts"

/** Error raised when a package cannot be downloaded, with a one-line reason. */
export class NpmRefused extends Schema.TaggedError<NpmRefused>("hermes-effect/tool/NpmRefused")("NpmRefused", {
  message: Schema.String
}) {}

const refusePackage = (message: string): Effect.Effect<never, NpmRefused> => Effect.fail(new NpmRefused({ message }))

/** A package and its exact version or tag. */
export interface PackageRequest {
  readonly name: string
  readonly version: string
}

/**
 * Parses `npm:name` or `npm:@scope/name@version`; returns `undefined` if the text has another prefix. The name is empty
 * if the text names no package.
 */
export const parse = (source: string): PackageRequest | undefined => {
  if (!source.startsWith("npm:")) return undefined
  const [, name = "", version = "latest"] =
    /^npm:((?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*)(?:@([\w.+-]+))?$/.exec(source) ?? []
  return { name, version }
}

const npmOwn = "https://registry.npmjs.org/"

const maxManifest = 2 * 1024 * 1024
const maxTarball = 50_000_000

interface Registry {
  readonly url: string
  readonly token: string | undefined
}

/** Parses the entries of a `.npmrc` and substitutes environment variables. */
const parseNpmrc = (text: string, variable: (name: string) => string | undefined): ReadonlyMap<string, string> =>
  new Map(
    text.split(/\r?\n/).flatMap((line): ReadonlyArray<readonly [string, string]> => {
      const [, key, value] = /^\s*([^#;=\s][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? []
      return key === undefined || value === undefined
        ? []
        : [[key, value.replace(/^"(.*)"$/, "$1").replaceAll(/\$\{(\w+)\}/g, (_, name: string) => variable(name) ?? "")]]
    })
  )

/** Returns the registry of a package from npm's configuration. */
const readRegistry = Effect.fnUntraced(function* (
  name: string,
  variable: Environment["Service"]["get"]
): Effect.fn.Return<Registry, NpmRefused, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const user = variable("HOME") ?? variable("USERPROFILE")
  const file =
    variable("NPM_CONFIG_USERCONFIG") ??
    variable("npm_config_userconfig") ??
    (user === undefined ? undefined : paths.join(user, ".npmrc"))
  const text = file === undefined ? Option.none() : yield* Effect.option(fs.readFileString(file))
  const entries = parseNpmrc(
    Option.getOrElse(text, () => ""),
    variable
  )
  const scope = name.startsWith("@") ? name.slice(0, name.indexOf("/")) : undefined
  const given =
    (scope === undefined ? undefined : entries.get(`${scope}:registry`)) ??
    variable("npm_config_registry") ??
    variable("NPM_CONFIG_REGISTRY") ??
    entries.get("registry") ??
    npmOwn
  const url = URL.parse(given.endsWith("/") ? given : `${given}/`)
  if (url === null || !/^https?:$/.test(url.protocol))
    return yield* refusePackage(`the registry of npm's configuration is no address: ${given}`)
  return { url: url.href, token: entries.get(`${url.href.slice(url.protocol.length)}:_authToken`) }
})

const Manifest = Schema.fromJsonString(
  Schema.Struct({
    name: Schema.String,
    version: Schema.String,
    dist: Schema.Struct({ tarball: Schema.String, integrity: Schema.optionalKey(Schema.String) })
  })
)

const decodeManifest = Schema.decodeUnknownOption(Manifest)

/**
 * Fetches an address. Only the registry receives the registry's token, and only the registry may be in a private
 * network.
 */
const fetchAddress = (url: string, { token, url: registry }: Registry, most: number) => {
  const isRegistry = URL.parse(url)?.origin === new URL(registry).origin
  // The user named the package and its registry. A registry in a private network may not redirect elsewhere.
  const policy: Urls.Policy =
    isRegistry && registry !== npmOwn
      ? { ...Urls.strict, allowPrivate: true }
      : { ...Urls.strict, unknownHosts: "allow" }
  const headers = {
    "user-agent": "hermes-effect",
    accept: "*/*",
    ...(isRegistry && token !== undefined ? { authorization: `Bearer ${token}` } : {})
  }
  return Fetch.fetch(url, { headers, maxBytes: most }).pipe(
    Effect.provideService(Urls.UrlPolicy, policy),
    Effect.timeoutOrElse({
      duration: "60 seconds",
      orElse: () => refusePackage(`${new URL(registry).host} did not answer within 60 seconds`)
    }),
    Effect.catchTags({
      UrlBlocked: ({ message }) => refusePackage(message),
      TransportFailed: ({ message }) => refusePackage(`${URL.parse(url)?.host ?? url} could not be read: ${message}`)
    })
  )
}

const algorithms = ["sha512", "sha384", "sha256"] as const

/**
 * Checks bytes against the strongest hash of an integrity text; returns `undefined` if none of its hashes is supported.
 */
const isIntact = (bytes: Uint8Array, integrity: string): boolean | undefined => {
  const hashes = integrity
    .trim()
    .split(/\s+/)
    .map((one) => one.split("?")[0] ?? "")
  const algorithm = algorithms.find((one) => hashes.some((hash) => hash.startsWith(`${one}-`)))
  return algorithm === undefined ? undefined : hashes.includes(`${algorithm}-${Digest.toBase64(bytes, algorithm)}`)
}

/** A tarball with a verified hash, and the version of the package. */
export interface DownloadedPackage extends PackageRequest {
  readonly tarball: Uint8Array
}

/** Downloads a package, subject to the address checks. */
export const download = Effect.fn("NpmPackage.download")(function* (
  { name, version }: PackageRequest,
  variable: Environment["Service"]["get"]
): Effect.fn.Return<DownloadedPackage, NpmRefused, FileSystem.FileSystem | Path.Path> {
  if (name === "")
    return yield* refusePackage(
      "this names no package: use npm:name, or npm:name@version with an exact version or a tag"
    )
  const registry = yield* readRegistry(name, variable)
  const { host } = new URL(registry.url)
  const found = yield* fetchAddress(
    new URL(`${name.replace("/", "%2F")}/${encodeURIComponent(version)}`, registry.url).href,
    registry,
    maxManifest
  )
  if (found.status === 404) return yield* refusePackage(`${host} has no package ${name}@${version}`)
  if (found.status !== 200) return yield* refusePackage(`${host} answered ${found.status} for ${name}@${version}`)
  const manifest = Option.getOrUndefined(decodeManifest(new TextDecoder().decode(found.body)))
  if (manifest === undefined || manifest.name !== name)
    return yield* refusePackage(`${host} does not describe ${name}@${version} as a registry of npm does`)
  const { integrity = "", tarball } = manifest.dist
  const { body, status, truncated } = yield* fetchAddress(tarball, registry, maxTarball)
  if (status !== 200)
    return yield* refusePackage(
      `${URL.parse(tarball)?.host ?? tarball} answered ${status} for the tarball of ${name}@${manifest.version}`
    )
  if (truncated)
    return yield* refusePackage(
      `the tarball of ${name}@${manifest.version} is larger than ${maxTarball / 1_000_000} MB`
    )
  const verdict = isIntact(body, integrity)
  if (verdict === undefined)
    return yield* refusePackage(
      `${host} names no SHA-2 hash for ${name}@${manifest.version}: what came cannot be checked`
    )
  if (!verdict)
    return yield* refusePackage(
      `the tarball of ${name}@${manifest.version} is not what ${host} says that it is: its hash is another one`
    )
  return { name, version: manifest.version, tarball: body }
})
