/**
 * The settings of this process as one typed value, which `SettingsSchema` decodes. A library that has no settings does
 * not load their Schema.
 */
import * as Context from "effect/Context"
import type { RouteSources } from "./SettingSources.ts"
import type { SettingsSchema } from "./SettingsSchema.ts"

/** The decoded settings, with the sources that define their routes. */
export type Values = typeof SettingsSchema.Type & {
  /** Sources that define the parts of routes; absent if an application provides the settings itself. */
  readonly sources?: RouteSources | undefined
}

/**
 * Service for the settings of this process, which do not change after the start.
 *
 * @see {@link Values} for its members.
 */
export class Settings extends Context.Service<Settings, Values>()("hermes-effect/config/Settings") {}
