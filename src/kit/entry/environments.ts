/** Environments for commands and files: this machine, a sandbox, a container, or another machine. */
export * as CommandEnvironment from "../../places/CommandEnvironment.ts"
export * as Container from "../../places/Container.ts"
export * as Sandbox from "../../places/Sandbox.ts"
export * as SshHost from "../../places/SshHost.ts"
