/** Graphs: work that is recorded once and launched as a whole, many times. */
#ifndef OPENREG_GRAPH_H_
#define OPENREG_GRAPH_H_

#include "capture.h"

/** Names a node; valid as long as its graph. */
typedef struct orGraphNode_st* orGraphNode_t;

/** Names a graph that is ready to be launched. */
typedef struct orGraphExec_st* orGraphExec_t;

typedef enum orGraphNodeType OPENREG_INT {
  orGraphNodeTypeKernel = 0,
  orGraphNodeTypeMemcpy = 1,
  orGraphNodeTypeMemset = 2,
  orGraphNodeTypeHost = 3,
  orGraphNodeTypeGraph = 4, /* a child graph */
  orGraphNodeTypeEmpty = 5,
  orGraphNodeTypeWaitEvent = 6, /* of orStreamWaitEvent() with
                                   orEventWaitExternal */
  orGraphNodeTypeEventRecord = 7 /* of orEventRecordWithFlags() with
                                    orEventRecordExternal */
} orGraphNodeType;

typedef enum orGraphExecUpdateResult OPENREG_INT {
  orGraphExecUpdateSuccess = 0,
  orGraphExecUpdateErrorTopologyChanged = 2, /* other nodes or edges */
  orGraphExecUpdateErrorNodeTypeChanged = 3
} orGraphExecUpdateResult;

/** Why a graph does not fit an executable one. */
typedef struct orGraphExecUpdateResultInfo {
  orGraphExecUpdateResult result;
  orGraphNode_t errorNode; /* the first node of the graph that differs; NULL if
                              there is none */
} orGraphExecUpdateResultInfo;

enum {
  orGraphDebugDotFlagsVerbose = 1 /* with devices and bytes */
};

/**
 * Create an empty graph. Most graphs come from orStreamEndCapture() instead.
 *
 * @param[out] graph  the handle
 * @param[in]  flags  0
 *
 * @retval orSuccess                `graph` is set
 * @retval orErrorInvalidValue      `graph` is NULL, or `flags` is not 0
 * @retval orErrorMemoryAllocation  too many graphs are alive
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphCreate.
 */
OPENREG_EXPORT orError_t orGraphCreate(orGraph_t* graph, unsigned int flags);

/**
 * Destroy a graph. What was instantiated from it, and graphs that it is a child
 * of, share its nodes and stay as they are. A callable is
 * destroyed with the last of them.
 *
 * @param[in] graph  the graph
 *
 * @retval orSuccess             the handles of the graph and its nodes are invalid
 *                               from now on
 * @retval orErrorInvalidHandle  `graph` is NULL or destroyed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphDestroy.
 */
OPENREG_EXPORT orError_t orGraphDestroy(orGraph_t graph);

/**
 * Add a node that does nothing, to join others.
 *
 * @param[out] node             the handle
 * @param[in]  graph            the graph
 * @param[in]  dependencies     nodes of `graph` that come before
 * @param[in]  numDependencies  how many; 0: the node may come first
 *
 * @retval orSuccess             `node` is set
 * @retval orErrorInvalidHandle  `graph` is NULL or destroyed
 * @retval orErrorInvalidValue   `node` is NULL, `dependencies` is NULL and
 *                               `numDependencies` is not 0, or one of them is not
 *                               a node of `graph` or given twice
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphAddEmptyNode.
 */
OPENREG_EXPORT orError_t orGraphAddEmptyNode(
    orGraphNode_t* node,
    orGraph_t graph,
    const orGraphNode_t* dependencies,
    size_t numDependencies);

/**
 * Add a node that runs another graph, as it is now. orGraphLaunch() into a
 * capturing stream adds such a node too.
 *
 * @param[out] node             the handle
 * @param[in]  graph            the graph to add to
 * @param[in]  dependencies     nodes of `graph` that come before
 * @param[in]  numDependencies  how many; 0: the node may come first
 * @param[in]  child            the graph to run, which may be `graph` itself
 *
 * @retval orSuccess             `node` is set
 * @retval orErrorInvalidHandle  `graph` or `child` is NULL or destroyed
 * @retval orErrorInvalidValue   as for orGraphAddEmptyNode()
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphAddChildGraphNode.
 */
OPENREG_EXPORT orError_t orGraphAddChildGraphNode(
    orGraphNode_t* node,
    orGraph_t graph,
    const orGraphNode_t* dependencies,
    size_t numDependencies,
    orGraph_t child);

/**
 * List the nodes of a graph, in the order in which they were recorded.
 *
 * @param[in]     graph     the graph
 * @param[out]    nodes     gets the first `*numNodes`, and NULL where there are
 *                          fewer; NULL to ask for the number only
 * @param[in,out] numNodes  room in `nodes`; set to how many it got, or to how many
 *                          there are if `nodes` is NULL
 *
 * @retval orSuccess             `numNodes` is set
 * @retval orErrorInvalidHandle  `graph` is NULL or destroyed
 * @retval orErrorInvalidValue   `numNodes` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphGetNodes.
 */
OPENREG_EXPORT orError_t
orGraphGetNodes(orGraph_t graph, orGraphNode_t* nodes, size_t* numNodes);

/**
 * List the edges of a graph: `to[i]` runs after `from[i]`.
 *
 * @param[in]     graph     the graph
 * @param[out]    from      gets the first `*numEdges`, and NULL where there are
 *                          fewer; NULL, together with `to`, to ask for the number
 * @param[out]    to        likewise
 * @param[in,out] numEdges  room in `from` and in `to`; set to how many they got, or
 *                          to how many there are if they are NULL
 *
 * @retval orSuccess             `numEdges` is set
 * @retval orErrorInvalidHandle  `graph` is NULL or destroyed
 * @retval orErrorInvalidValue   `numEdges` is NULL, or only one of `from` and `to`
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphGetEdges.
 */
OPENREG_EXPORT orError_t orGraphGetEdges(
    orGraph_t graph,
    orGraphNode_t* from,
    orGraphNode_t* to,
    size_t* numEdges);

/**
 * Tell the kind of a node.
 *
 * @param[in]  node  the node
 * @param[out] type  its kind
 *
 * @retval orSuccess             `type` is set
 * @retval orErrorInvalidHandle  `node` is NULL, or its graph is destroyed
 * @retval orErrorInvalidValue   `type` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphNodeGetType.
 */
OPENREG_EXPORT orError_t
orGraphNodeGetType(orGraphNode_t node, orGraphNodeType* type);

/**
 * Write a graph to a file in the DOT language, child graphs included.
 *
 * @param[in] graph  the graph
 * @param[in] path   file to write
 * @param[in] flags  0 or orGraphDebugDotFlagsVerbose
 *
 * @retval orSuccess               the file is written
 * @retval orErrorInvalidHandle    `graph` is NULL or destroyed
 * @retval orErrorInvalidValue     `path` is NULL, or `flags` has unknown bits
 * @retval orErrorOperatingSystem  the file cannot be written
 *
 * Threads: any. Blocks: while it writes. CUDA twin: cudaGraphDebugDotPrint.
 */
OPENREG_EXPORT orError_t
orGraphDebugDotPrint(orGraph_t graph, const char* path, unsigned int flags);

/**
 * Prepare a graph for launches. Later changes of the graph have no effect on what
 * was prepared.
 *
 * @param[out] exec   the handle
 * @param[in]  graph  the graph, which may be destroyed afterwards
 * @param[in]  flags  0
 *
 * @retval orSuccess                `exec` is set
 * @retval orErrorInvalidHandle     `graph` is NULL or destroyed
 * @retval orErrorInvalidValue      `exec` is NULL, or `flags` is not 0
 * @retval orErrorMemoryAllocation  too many executable graphs are alive
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphInstantiate.
 */
OPENREG_EXPORT orError_t orGraphInstantiate(
    orGraphExec_t* exec,
    orGraph_t graph,
    unsigned long long flags);

/**
 * Replace the nodes of an executable graph by those of another graph of the same
 * shape: as many nodes of the same kinds with the same edges, in the same order.
 * Launches made before run the old nodes.
 *
 * @param[in]  exec   the executable graph
 * @param[in]  graph  where the nodes come from
 * @param[out] info   what differs; NULL if not wanted
 *
 * @retval orSuccess                      the next launch runs the new nodes
 * @retval orErrorInvalidHandle           `exec` or `graph` is NULL or destroyed
 * @retval orErrorGraphExecUpdateFailure  the shapes differ; `exec` is as before
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphExecUpdate.
 */
OPENREG_EXPORT orError_t orGraphExecUpdate(
    orGraphExec_t exec,
    orGraph_t graph,
    orGraphExecUpdateResultInfo* info);

/**
 * Prepare what the first launch in a stream would otherwise have to: its worker
 * thread.
 *
 * @param[in] exec    the executable graph
 * @param[in] stream  where it will be launched
 *
 * @retval orSuccess             a launch will find all it needs
 * @retval orErrorInvalidHandle  `exec` or `stream` is NULL or destroyed
 * @retval the capture's error   `stream` is capturing
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphUpload.
 */
OPENREG_EXPORT orError_t orGraphUpload(orGraphExec_t exec, orStream_t stream);

/**
 * Launch all nodes of an executable graph in a stream, as one piece of work, in an
 * order that their edges allow. Launches of one executable graph never overlap: one
 * in another stream waits for those before it.
 *
 * A node that fails breaks the device on which it was recorded, and the nodes after
 * it are dropped. The launch waits for external events before its first node runs,
 * for the record that is their latest at the time of the call; events that it records
 * are complete when the whole graph has run. A graph of few small nodes may run on
 * the calling thread, as work launched with orLaunchSmall does.
 *
 * In a capturing stream the launch adds a node that runs the graph as it is now.
 *
 * @param[in] exec    the executable graph
 * @param[in] stream  stream to run in, not NULL
 *
 * @retval orSuccess             the launch is queued, or has run already
 * @retval orErrorInvalidHandle  `exec` or `stream` is NULL or destroyed, or an event
 *                               of the graph is destroyed
 * @retval orErrorNotPermitted   called from a kernel or a host function of this very
 *                               stream while its queue is full, or from any while
 *                               another thread launches `exec`
 * @retval orErrorCapturedEvent  an event that the graph waits for was recorded in a
 *                               capturing stream; this invalidates the capture
 * @retval orErrorInvalidValue   it was recorded in a capture that has ended
 * @retval orErrorTimeout        the queue stayed full for OPENREG_WAIT_TIMEOUT
 * @retval the capture's error   `stream` is in an invalidated capture, or is a
 *                               default stream
 * @retval the device's error    a kernel failed; with OPENREG_LAUNCH_BLOCKING=1
 *                               perhaps one of this graph
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin: cudaGraphLaunch.
 */
OPENREG_EXPORT orError_t orGraphLaunch(orGraphExec_t exec, orStream_t stream);

/**
 * Destroy an executable graph. Launches that are queued still run.
 *
 * @param[in] exec  the executable graph
 *
 * @retval orSuccess             the handle is invalid from now on
 * @retval orErrorInvalidHandle  `exec` is NULL or destroyed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGraphExecDestroy.
 */
OPENREG_EXPORT orError_t orGraphExecDestroy(orGraphExec_t exec);

#endif /* OPENREG_GRAPH_H_ */
