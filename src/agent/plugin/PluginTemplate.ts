/**
 * Writes a new plugin into the user's `plugins` directory: a typed plugin with a tool, a hook and middleware that runs
 * unchanged, and a `tsconfig.json` that lets an editor find the types of this program.
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

const isName = (name: string): boolean =>
  /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) && name.length <= 50 && name !== "node-modules"

const renderManifest = (name: string): string => `name: ${name}
version: 0.1.0
description: Greets people by name
api_version: ${Manifest.contractVersion}
`

const renderModule = (name: string): string => {
  const tool = `${name.replaceAll("-", "_")}_greet`
  return `import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Hooks, Middleware, Plugin, Toolset } from "hermes-effect"

// The model reads the description and calls the tool with arguments of this shape.
const Greet = Tool.make("${tool}", {
  description: "Greets a person by name",
  parameters: Schema.Struct({ name: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)

const toolkit = Toolkit.make(Greet)

export default Plugin.fromValue({
  name: "${name}",
  tools: [
    Toolset.make(
      "${name}",
      toolkit,
      toolkit.toLayer({ ${tool}: ({ name }) => Effect.succeed(\`Hello, \${name}!\`) })
    )
  ],
  hooks: [
    // Runs after each tool call without changing it.
    Hooks.on("post_tool_call", ({ duration_ms, tool_name }) => Effect.logDebug(\`\${tool_name} took \${duration_ms} ms\`))
  ],
  middleware: [
    // Runs around each request to a provider.
    Middleware.llmExecution({
      name: "timing",
      wrap: (next) => (request) => next(request).pipe(Effect.withSpan("${name}.request"))
    })
  ]
})
`
}

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

const renderTypeSettings = (): string => {
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
        }
      }
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
  plugins: string
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
  const files = {
    [Manifest.fileNames[0]]: renderManifest(name),
    "index.ts": renderModule(name),
    "tsconfig.json": renderTypeSettings()
  }
  for (const [file, text] of Object.entries(files)) yield* tidy(fs.writeFileString(paths.join(written, file), text))
  yield* tidy(fs.rename(written, directory))
  return directory
})
