/**
 * Settings of the ATOF and ATIF exporters, from the variables `HERMES_NEMO_RELAY_ATOF_*` and
 * `HERMES_NEMO_RELAY_ATIF_*`.
 *
 * **Details**
 *
 * Values are trimmed; an empty value counts as unset. ATOF files are written to the working directory by default; for
 * ATIF files a directory must be set. If no agent version is set, the version in the record is used.
 * `HERMES_NEMO_RELAY_ATOF_MAX_BYTES` is not in NeMo Relay: it is the size in bytes at which a file is rotated.
 *
 * Source: the NeMo Relay document, `hermes-contract.md` §4.2.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import type * as AtifWriter from "./AtifWriter.ts"
import type * as AtofWriter from "./AtofWriter.ts"
import type { Agent } from "./atof/AgentScopes.ts"

/** Maximum time that the program waits, before it exits, for files that are not on disk yet. */
export const FlushDeadline = Context.Reference<Duration.Duration>("hermes-effect/observability/FlushDeadline", {
  defaultValue: () => Duration.seconds(5)
})

/** Options of each exporter, or `undefined` for a disabled exporter. */
export interface TraceSettings {
  readonly agent: Agent
  readonly atof: AtofWriter.Options | undefined
  readonly atif: AtifWriter.Options | undefined
}

const prefix = "HERMES_NEMO_RELAY_"

/** Reads the path of NeMo Relay's own configuration (`plugins.toml`); `undefined` when unset. */
export const readPluginsTomlPath = (get: (name: string) => string | undefined): string | undefined =>
  get(`${prefix}PLUGINS_TOML`)?.trim() || undefined

const isTrue = (value: string | undefined): boolean => /^(1|true|yes|on)$/iu.test(value ?? "")

/** Reads the settings; `get` returns the value of a variable. */
export const fromVariables = (get: (name: string) => string | undefined): TraceSettings => {
  const readVariable = (name: string): string | undefined => get(`${prefix}${name}`)?.trim() || undefined
  const agent = { name: readVariable("ATIF_AGENT_NAME") ?? "Hermes Agent", version: readVariable("ATIF_AGENT_VERSION") }
  const directory = readVariable("ATIF_OUTPUT_DIRECTORY")
  const maxBytes = Number(readVariable("ATOF_MAX_BYTES") ?? "")
  return {
    agent,
    atof: isTrue(readVariable("ATOF_ENABLED"))
      ? {
          directory: readVariable("ATOF_OUTPUT_DIRECTORY") ?? ".",
          filename: readVariable("ATOF_FILENAME") ?? "hermes-atof.jsonl",
          mode: readVariable("ATOF_MODE")?.toLowerCase() === "overwrite" ? "overwrite" : "append",
          maxBytes: Number.isSafeInteger(maxBytes) && maxBytes > 0 ? maxBytes : undefined
        }
      : undefined,
    atif:
      isTrue(readVariable("ATIF_ENABLED")) && directory !== undefined
        ? {
            directory,
            filenameTemplate: readVariable("ATIF_FILENAME_TEMPLATE") ?? "hermes-atif-{session_id}.json",
            agentName: agent.name,
            agentVersion: agent.version,
            modelName: readVariable("ATIF_MODEL_NAME") ?? "unknown",
            subagents: readVariable("ATIF_SUBAGENT_EXPORT_MODE")?.toLowerCase() === "all" ? "all" : "embedded"
          }
        : undefined
  }
}
