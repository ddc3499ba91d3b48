/**
 * Normalizes the names of plugin commands, and selects one of several commands with the same name.
 *
 * Source: `hermes-contract.md` §3.5 (`register_command`, `register_cli_command`).
 */

/** Fields shared by slash commands and program commands. */
interface CommandFields {
  readonly name: string
  readonly description?: string | undefined
  readonly argsHint?: string | undefined
}

/** The usable commands, and warnings about the rejected ones. */
interface AcceptedCommands<C> {
  readonly commands: ReadonlyArray<C>
  readonly warnings: ReadonlyArray<string>
}

/** Normalizes a command name, for example `/MyCmd ` to `mycmd`. */
export const normalizeName = (given: string): string =>
  given.trim().replace(/^\/+/, "").trim().toLowerCase().replaceAll(/\s+/g, "-")

/** Help text of a command without a description. */
const defaultDescription = "Plugin command"

/** Returns the commands of one plugin under their final names. `reserved` are the names of built-in commands. */
export const acceptCommands = <C extends CommandFields>(
  given: ReadonlyArray<C>,
  reserved: ReadonlyArray<string>
): AcceptedCommands<C> => {
  const warnings: Array<string> = []
  const commands = given.flatMap((command) => {
    const name = normalizeName(command.name)
    if (name === "") {
      warnings.push("a command without a name is ignored")
      return []
    }
    if (reserved.includes(name)) {
      warnings.push(`the command "${name}" is ignored: the program has one of that name`)
      return []
    }
    return [
      {
        ...command,
        name,
        description: command.description?.trim() || defaultDescription,
        argsHint: command.argsHint?.trim() || undefined
      }
    ]
  })
  return { commands, warnings }
}

/** Returns the last of the commands with each name, ordered by name. */
export const dropDuplicates = <C extends CommandFields>(commands: ReadonlyArray<C>): ReadonlyArray<C> =>
  Array.from(new Map(commands.map((command) => [command.name, command])).values()).toSorted((a, b) =>
    a.name < b.name ? -1 : 1
  )
