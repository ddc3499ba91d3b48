/** Settings of a plugin for `hermes plugins info`: declared in its manifest, or by a Schema in its code. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type { Candidate } from "../../agent/plugin/Candidate.ts"
import type { ConfigField } from "../../agent/plugin/ConfigFields.ts"
import type { Status } from "../../agent/plugin/Enablement.ts"
import * as Opening from "../../agent/plugin/Opening.ts"
import * as PluginConfig from "../../agent/plugin/PluginConfig.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as MiddlewareDefinition from "../../middleware/MiddlewareDefinition.ts"
import { load } from "./CommandSettings.ts"
import { printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

/** A setting and its value in the configuration. */
interface Setting extends ConfigField {
  /** Value in the configuration, masked if it is secret; `undefined` if it is not set. */
  readonly value: unknown
}

/** Time limit of an import. */
const deadline = Duration.seconds(10)

/** Tests whether a module may have a Schema of settings. */
const mentionsConfig = Effect.fnUntraced(function* (module: string | undefined) {
  const fs = yield* FileSystem.FileSystem
  const text = module === undefined ? "" : yield* Effect.orElseSucceed(fs.readFileString(module), () => "")
  return /\bconfig\b/.test(text)
})

/** Returns the fields of a Schema in the code of a plugin. A plugin on disk is imported only if it is enabled. */
const readSchemaFields = Effect.fnUntraced(function* (candidate: Candidate, status: Status) {
  const { key, manifest, origin } = candidate
  if (status !== "enabled" && origin._tag !== "Value") {
    if (manifest.config.fields.length === 0 && (yield* mentionsConfig(origin.module))) {
      yield* printWarnings([
        SafeText.toLine(
          `${key} is not enabled, so its code was not read for a Schema of its settings: ` +
            `enable it, or run \`hermes plugins check ${key}\`, which runs its code`
        )
      ])
    }
    return []
  }
  // An error is reported by the attempt to load the plugin, see `PluginContents`.
  const schema = yield* Opening.readConfigSchema(candidate).pipe(
    Effect.timeoutOption(deadline),
    Effect.map(Option.getOrUndefined),
    Effect.orElseSucceed(() => undefined)
  )
  return schema === undefined ? [] : PluginConfig.describeSchema(schema)
})

/** Lists the settings of a plugin with their values. A Schema in its code has precedence over its manifest. */
export const listSettings = Effect.fnUntraced(function* (candidate: Candidate, status: Status) {
  const { settings } = yield* load
  const given = settings.plugins.entries[candidate.key] ?? {}
  const found = yield* readSchemaFields(candidate, status)
  const fields = found.length > 0 ? found : candidate.manifest.config.fields
  return fields.map(({ description, fallback, isRequired, isSecret, name, type }): Setting => {
    const value = given[name] ?? given[MiddlewareDefinition.toCamelCase(name)]
    return {
      name,
      type,
      description,
      isRequired,
      isSecret,
      fallback: isSecret ? undefined : fallback,
      value: isSecret && value !== undefined ? Redaction.marker : value
    }
  })
})

/** Renders a setting: its name, its type and its value, or else its default. */
export const renderSetting = ({ fallback, isRequired, isSecret, name, type, value }: Setting): string => {
  const shown = JSON.stringify(value ?? fallback) ?? (isRequired ? "required" : "unset")
  return `${name}: ${type}${isSecret ? " (secret)" : ""} = ${shown}`
}
