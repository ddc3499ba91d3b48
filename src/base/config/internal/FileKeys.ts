/** Keys of the settings in the file, by the names of their fields. */
import { toSnakeCase } from "../Fields.ts"

/**
 * Keys that are not the snake_case form of their field's name. `<provider>` is the key under which the loader collects
 * the sections `<provider>.api_keys`.
 */
export const renamed = { credentials: "<provider>", configVersion: "_config_version" } as const

/** Returns the key in the file for a field of any section. */
export const toFileKey = (name: string): string =>
  name === "credentials" || name === "configVersion" ? renamed[name] : toSnakeCase(name)

/** Key under which the loader collects the sections `<provider>.api_keys`; see {@link toFileKey}. */
export const providerKeysKey = renamed.credentials
