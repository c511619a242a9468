# SPDX-License-Identifier: BSD-3-Clause
"""Collective communication between the processes of a job."""
