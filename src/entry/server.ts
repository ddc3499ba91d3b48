/** Servers over the runtime: the agent over HTTP, rollouts for training, the Agent Client Protocol. */
export * as AcpAgent from "../server/acp/AcpAgent.ts"
export * as AcpSession from "../server/acp/AcpSession.ts"
export * as AgentServer from "../server/agent/AgentServer.ts"
export * as HermesServer from "../server/HermesServer.ts"
