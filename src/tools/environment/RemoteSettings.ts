/** Containers and SSH hosts of the settings. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Values } from "../../base/config/Settings.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type * as Container from "../../places/Container.ts"
import type * as SshHost from "../../places/SshHost.ts"
import * as PathRoots from "../builtin/file/PathRoots.ts"
import type { Host } from "./SandboxSettings.ts"

/** Builds the options of containers from the settings. */
export const buildContainerOptions = (
  { terminal }: Values,
  { environment, home, findImage }: Host
): Effect.Effect<Container.Options, ConfigError> => {
  const { hideEnvFiles, network = "none", policy } = terminal.sandbox
  if (network === "hosts") {
    return Effect.fail(
      new ConfigError({
        path: "terminal.sandbox.network",
        message:
          "terminal.sandbox.network: a container cannot be limited to some hosts. Set it to none or to all, or " +
          "terminal.backend to sandbox."
      })
    )
  }
  const userHome = environment.get("HOME")
  const options: Container.Options = {
    binary: terminal.dockerBinary === undefined ? undefined : PathRoots.expandHome(terminal.dockerBinary, userHome),
    image: terminal.dockerImage,
    findImage,
    policy: policy === "read-only" ? policy : "workspace-write",
    workspace: terminal.dockerMountCwdToWorkspace ? "mount" : "copy",
    network,
    limits: {
      cpus: terminal.containerCpu,
      memory: terminal.containerMemory,
      disk: terminal.containerDisk,
      processes: terminal.containerPids
    },
    volumes: terminal.dockerVolumes.map((volume) => PathRoots.expandHome(volume, userHome)),
    readable: [home.skills],
    variables: terminal.dockerEnv,
    forwarded: [...terminal.dockerForwardEnv, ...terminal.envPassthrough],
    user: terminal.dockerRunAsHostUser ? "caller" : "image",
    isPersistent: terminal.containerPersistent,
    lifetime: Duration.seconds(terminal.lifetimeSeconds),
    home: userHome,
    hidesEnvFiles: hideEnvFiles,
    extraArguments: terminal.dockerExtraArgs
  }
  return Effect.succeed(options)
}

/** Builds the options of the SSH connection from the settings. */
export const buildSshOptions = (
  { terminal }: Values,
  { environment }: Host
): Effect.Effect<SshHost.Options, ConfigError> => {
  const { cwd, sshHost, sshKey, sshPort, sshUser } = terminal
  const failSetting = (path: string, message: string) =>
    Effect.fail(new ConfigError({ path, message: `${path}: ${message}` }))
  if (sshHost === undefined)
    return failSetting("terminal.ssh_host", "terminal.backend is ssh: set the host that commands run on")
  if (cwd !== undefined && !/^[~/]/.test(cwd))
    return failSetting("terminal.cwd", `"${cwd}" is not an absolute directory of ${sshHost}`)
  const options: SshHost.Options = {
    host: sshHost,
    user: sshUser,
    port: sshPort,
    key: sshKey === undefined ? undefined : PathRoots.expandHome(sshKey, environment.get("HOME")),
    directory: cwd,
    forwarded: terminal.envPassthrough,
    lifetime: Duration.seconds(terminal.lifetimeSeconds)
  }
  return Effect.succeed(options)
}
