/**
 * Writes a new plugin into the user's `plugins` directory: a module that runs unchanged, a scenario that tests it, and
 * a `tsconfig.json` that lets an editor find the types of this program.
 *
 * **Details**
 *
 * The files are written next to their destination and moved there in one step. An existing directory is never changed.
 *
 * **Gotchas**
 *
 * `tsconfig.json` names the place where this program is installed. Node does not read it: a plugin runs without it.
 *
 * Source: `hermes-contract.md` §3.2 and §3.6.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import { findTypeLocations } from "../../base/platform/PluginModules.ts"
import * as Manifest from "./Manifest.ts"
import { PluginError } from "./PluginError.ts"
import * as PluginTemplateFiles from "./PluginTemplateFiles.ts"

const isName = (name: string): boolean =>
  /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) && name.length <= 50 && name !== "node-modules"

const renderManifest = (name: string, description: string): string => `name: ${name}
version: 0.1.0
description: ${description}
api_version: ${Manifest.contractVersion}
`

const compilerOptions = {
  target: "ES2024",
  lib: ["ES2024", "ESNext.Disposable"],
  module: "preserve",
  moduleResolution: "bundler",
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  erasableSyntaxOnly: true,
  verbatimModuleSyntax: true,
  allowImportingTsExtensions: true,
  allowJs: true,
  checkJs: true,
  skipLibCheck: true
}

/** Parts of a `tsconfig.json` that replace the defaults. */
interface TypeSettings {
  readonly compilerOptions?: Readonly<Record<string, unknown>>
  readonly include?: ReadonlyArray<string>
  readonly exclude?: ReadonlyArray<string>
}

/** Returns the text of a `tsconfig.json` for plugin files, with the places of this program's declarations. */
export const makeTypeSettings = ({ compilerOptions: own, ...files }: TypeSettings = {}): string => {
  const { effect, hermes, types } = findTypeLocations()
  return `${JSON.stringify(
    {
      compilerOptions: {
        ...compilerOptions,
        types: types === undefined ? [] : ["node"],
        ...(types === undefined ? {} : { typeRoots: [types] }),
        paths: {
          "hermes-effect": [hermes],
          "hermes-effect/*": [hermes.replace(/index(?=(?:\.d)?\.ts$)/, "kit/entry/*")],
          "effect/*": [`${effect}/*`]
        },
        ...own
      },
      ...files
    },
    undefined,
    2
  )}\n`
}

const toPluginError =
  (plugin: string) =>
  <A, R>(self: Effect.Effect<A, PlatformError, R>): Effect.Effect<A, PluginError, R> =>
    Effect.mapError(self, ({ message }) => new PluginError({ plugin, message }))

/** Writes a plugin with this name below `plugins` and returns its directory. */
export const createPlugin = Effect.fn("PluginTemplate.createPlugin")(function* (
  name: string,
  plugins: string,
  kind: PluginTemplateFiles.PluginKind = { parts: [], isPlain: false }
): Effect.fn.Return<string, PluginError, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  if (!isName(name)) {
    const message =
      `${JSON.stringify(name)} is not a valid plugin name: use lower-case letters, digits and single hyphens, ` +
      "such as my-plugin"
    return yield* new PluginError({ plugin: name, message, input: true })
  }
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const tidy = toPluginError(name)
  const directory = paths.join(plugins, name)
  yield* tidy(fs.makeDirectory(plugins, { recursive: true, mode: 0o700 }))
  if (yield* tidy(fs.exists(directory))) {
    return yield* new PluginError({
      plugin: name,
      message: `${directory} exists already: choose another name`,
      input: true
    })
  }
  const staging = yield* tidy(fs.makeTempDirectoryScoped({ directory: plugins, prefix: ".new-" }))
  const written = paths.join(staging, name)
  yield* tidy(fs.makeDirectory(written))
  const { description, module, scenario } = PluginTemplateFiles.renderFiles(name, kind)
  const files = {
    [Manifest.fileNames[0]]: renderManifest(name, description),
    [module.file]: module.text,
    "tsconfig.json": makeTypeSettings(kind.isPlain ? { compilerOptions: { noImplicitAny: false } } : {}),
    [scenario.file]: scenario.text
  }
  yield* tidy(fs.makeDirectory(paths.join(written, paths.dirname(scenario.file))))
  for (const [file, text] of Object.entries(files)) yield* tidy(fs.writeFileString(paths.join(written, file), text))
  yield* tidy(fs.rename(written, directory))
  return directory
})
